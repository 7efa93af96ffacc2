# enricher: one static binary, CA certificates and nothing else; no shell, not root.
#
#   docker build -t enricher --build-arg VERSION=$(git describe --tags --always) --build-arg COMMIT=$(git rev-parse HEAD) .
#   docker run --read-only -v enricher-data:/var/lib/enricher -v $PWD/enricher.yaml:/etc/enricher/enricher.yaml:ro enricher
#
# Behind a proxy add `--build-arg HTTPS_PROXY=...`, for a module proxy `--build-arg GOPROXY=...`; the base images may come from a mirror by
# BUILD_IMAGE and RUN_IMAGE. It needs no BuildKit.
ARG BUILD_IMAGE=golang:1.26
ARG RUN_IMAGE=gcr.io/distroless/static-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
ARG GOPROXY
ARG GOFLAGS
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=(devel)
ARG COMMIT=unknown
# timetzdata: the time zones are inside the binary, so the image needs no files for auto_partition.time_zone.
RUN CGO_ENABLED=0 go build -trimpath -tags timetzdata -ldflags "-s -w -X 'main.stampedVersion=${VERSION}' -X 'main.stampedCommit=${COMMIT}'" -o /out/enricher ./cmd/enricher \
    && mkdir -p /out/data

FROM ${RUN_IMAGE}
ARG VERSION=(devel)
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="enricher" \
      org.opencontainers.image.description="Enriches Kafka events with columns of tables whose changelogs are Kafka topics" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build /out/enricher /usr/local/bin/enricher
COPY --from=build --chown=65532:65532 /out/data /var/lib/enricher
USER 65532:65532
# Temporary files (the demo's store) and a relative store.dir lie in the volume: the root file system may be read-only.
WORKDIR /var/lib/enricher
ENV TMPDIR=/var/lib/enricher
VOLUME /var/lib/enricher
EXPOSE 8080
# Alive, not ready: a first load may take long, and an instance that loads is healthy.
HEALTHCHECK --interval=15s --timeout=6s --start-period=30s --retries=4 \
    CMD ["/usr/local/bin/enricher", "health", "--live", "-c", "/etc/enricher/enricher.yaml"]
ENTRYPOINT ["/usr/local/bin/enricher"]
CMD ["run", "-c", "/etc/enricher/enricher.yaml"]
