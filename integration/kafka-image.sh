#!/usr/bin/env bash
# kafka-image.sh: a local Apache Kafka image for the scenarios, where no container registry can be reached.
#
# On a machine that can pull images this script is not needed: the scenarios pull apache/kafka by themselves.
# It needs root, an apt-based system and a Maven repository, and it
#   1. installs a container engine and the tools to build the image, as far as they are missing,
#   2. starts the engine when none answers,
#   3. builds the image from Kafka's own jars and a small Java runtime, unless it is there already.
# A second run costs a fraction of a second. The last line of stdout is the name of the image.
#
#   KAFKA_VERSION   4.4.0
#   KAFKA_IMAGE     the name to give it: enricher-test/kafka:$KAFKA_VERSION
#   WORK            folder for logs and the image's root file system; default: in the user's cache folder
set -euo pipefail

KAFKA_VERSION=${KAFKA_VERSION:-4.4.0}
LOG4J_VERSION=${LOG4J_VERSION:-2.25.3}
IMAGE=${KAFKA_IMAGE:-enricher-test/kafka:$KAFKA_VERSION}
WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/enricher-kafka-image}
# What the image is made of: with another script or version it is built anew.
RECIPE=$({ cat "$0"; echo "$KAFKA_VERSION $LOG4J_VERSION"; } | sha256sum | cut -c1-16)
export DOCKER_HOST=${DOCKER_HOST:-unix:///var/run/docker.sock}
mkdir -p "$WORK"

say() { echo "kafka-image: $*" >&2; }

# One run at a time: a second one waits here, then finds the image.
exec 9>"$WORK/lock"
flock 9

install_tools() {
  local need=()
  command -v dockerd >/dev/null || need+=(docker.io iptables)
  command -v busybox >/dev/null || need+=(busybox-static)
  command -v jlink >/dev/null || need+=(openjdk-17-jdk-headless)
  command -v objcopy >/dev/null || need+=(binutils) # jlink --strip-debug
  command -v mvn >/dev/null || need+=(maven)
  ((${#need[@]})) || return 0
  say "installing ${need[*]}"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${need[@]}"; } >"$WORK/apt.log" 2>&1 9>&- ||
    { tail -20 "$WORK/apt.log" >&2; return 1; }
}

start_engine() {
  if ! command -v docker >/dev/null || ! docker version >/dev/null 2>&1; then
    command -v dockerd >/dev/null || install_tools
    # A killed engine leaves its pid files, and a zombie of that pid makes the next one refuse to start.
    local f
    for f in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
      [ -s "$f" ] || continue
      case $(ps -o stat= -p "$(cat "$f")" 2>/dev/null) in '' | Z*) rm -f "$f" ;; esac
    done
    say "starting the engine"
    setsid nohup dockerd >"$WORK/dockerd.log" 2>&1 </dev/null 9>&- &
    for _ in $(seq 1 240); do docker version >/dev/null 2>&1 && break; sleep 0.25; done
    docker version >/dev/null || { tail -20 "$WORK/dockerd.log" >&2; return 1; }
  fi
}

# Kafka's jars, a Java runtime of only the modules they use, the C libraries of both, and busybox for a shell.
build_rootfs() {
  local root=$1
  rm -rf "$root"
  mkdir -p "$root"/{bin,etc,tmp,proc,sys,dev,root,var/lib/kafka/data,opt/kafka/libs,opt/kafka/config}
  chmod 1777 "$root/tmp"
  cat >"$WORK/pom.xml" <<X
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka-libs</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>$LOG4J_VERSION</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>$LOG4J_VERSION</version></dependency>
</dependencies></project>
X
  mvn -B -q -f "$WORK/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$root/opt/kafka/libs" >&2
  # java.desktop is there for java.beans alone, which log4j-core wants; its native code is not needed.
  jlink --add-modules java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.sql,java.xml,java.desktop,jdk.management,jdk.unsupported,jdk.crypto.ec,jdk.crypto.cryptoki,jdk.zipfs \
    --strip-debug --no-header-files --no-man-pages --output "$root/opt/jre" >&2
  rm -f "$root"/opt/jre/lib/lib{awt*,fontmanager,freetype,javajpeg,jawt,jsound,lcms,mlib_image,splashscreen}.so
  "$root/opt/jre/bin/java" -Xshare:dump >/dev/null # the archive of the JDK's classes: jlink leaves it out
  cp -L "$(command -v busybox)" "$root/bin/busybox"
  local applet
  for applet in sh sleep cat ls mkdir rm kill date env test hostname; do ln -s busybox "$root/bin/$applet"; done
  local arch
  case $(uname -m) in aarch64) arch=AArch64 ;; *) arch=x86-64 ;; esac
  {
    find "$root/opt/jre" -type f \( -name '*.so' -o -perm -u+x \) -print0 | xargs -0 ldd 2>/dev/null |
      awk '/=> \//{print $3} /^\t\/lib/{print $1}'
    # The native code of the codecs (zstd, snappy, lz4) is unpacked from jars at run time: ldd can't see what it needs.
    ldconfig -p | awk -v arch="$arch" 'index($0, arch) &&
      $1 ~ /^(libstdc\+\+\.so\.6|libgcc_s\.so\.1|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|libm\.so\.6|libresolv\.so\.2)$/{print $NF}'
  } | grep -v "^$root" | sort -u | while read -r lib; do
    mkdir -p "$root$(dirname "$lib")"
    cp -L "$lib" "$root$lib"
  done
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
  printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
}

start_engine
if [ "$(docker image inspect -f '{{index .Config.Labels "recipe"}}' "$IMAGE" 2>/dev/null)" != "$RECIPE" ]; then
  install_tools
  say "building $IMAGE"
  build_rootfs "$WORK/rootfs-$KAFKA_VERSION"
  tar -C "$WORK/rootfs-$KAFKA_VERSION" --numeric-owner --owner=0 --group=0 -c . |
    docker import -c 'ENV PATH=/opt/jre/bin:/bin' -c 'WORKDIR /opt/kafka' -c "LABEL recipe=$RECIPE" - "$IMAGE" >/dev/null
  rm -rf "$WORK/rootfs-$KAFKA_VERSION"
fi
say "$(docker image inspect -f "$IMAGE is ready, {{.Size}} bytes" "$IMAGE")"
echo "$IMAGE"
