{{- define "enricher.pod" -}}
metadata:
  labels:
    {{- include "enricher.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # A change of the configuration is a rollout.
    checksum/config: {{ .Values.config | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "enricher.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add (include "enricher.graceSeconds" . | int64) (int64 .Values.terminationMarginSeconds) }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: enricher
      image: "{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, -c, /etc/enricher/enricher.yaml]
      env:
        - name: GOMEMLIMIT
          value: {{ printf "%dMiB" (add (include "enricher.mebibytes" .Values.store.memory | int64) 256) }}
        {{- if eq .Values.kind "statefulset" }}
        - name: ENRICHER_INPUT__INSTANCE_ID
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- include "enricher.overrides" . | nindent 8 }}
        {{- with .Values.env }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: admin, containerPort: {{ int64 .Values.admin.port }}, protocol: TCP}
      # Alive at startup, not ready: a first load may take longer than any startup probe should.
      startupProbe:
        httpGet: {path: /livez, port: admin}
        {{- toYaml .Values.probes.startup | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: admin}
        {{- toYaml .Values.probes.readiness | nindent 8 }}
      livenessProbe:
        httpGet: {path: /livez, port: admin}
        {{- toYaml .Values.probes.liveness | nindent 8 }}
      resources:
        requests:
          cpu: {{ .Values.resources.cpuRequest | quote }}
          memory: {{ include "enricher.memory" . }}
          {{- if eq .Values.kind "deployment" }}
          ephemeral-storage: {{ include "enricher.volumeSize" . }}
          {{- end }}
        limits:
          {{- with .Values.resources.cpuLimit }}
          cpu: {{ . | quote }}
          {{- end }}
          memory: {{ include "enricher.memory" . }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: data, mountPath: /var/lib/enricher}
        - {name: config, mountPath: /etc/enricher, readOnly: true}
        {{- if .Values.kafka.sasl.existingSecret }}
        - {name: sasl, mountPath: /etc/enricher-sasl, readOnly: true}
        {{- end }}
        {{- if .Values.kafka.tls.existingSecret }}
        - {name: tls, mountPath: /etc/enricher-tls, readOnly: true}
        {{- end }}
        {{- if .Values.admin.existingSecret }}
        - {name: admin, mountPath: /etc/enricher-admin, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "enricher.fullname" . }}}
    {{- if eq .Values.kind "deployment" }}
    - name: data
      emptyDir: {sizeLimit: {{ include "enricher.volumeSize" . }}}
    {{- end }}
    {{- if .Values.kafka.sasl.existingSecret }}
    - name: sasl
      secret: {secretName: {{ .Values.kafka.sasl.existingSecret }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.kafka.tls.existingSecret }}
    - name: tls
      secret: {secretName: {{ .Values.kafka.tls.existingSecret }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.admin.existingSecret }}
    - name: admin
      secret: {secretName: {{ .Values.admin.existingSecret }}, defaultMode: 0440}
    {{- end }}
  {{- if .Values.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $.Values.topologySpread.whenUnsatisfiable }}
      labelSelector: {matchLabels: {{ include "enricher.selector" $ | fromYaml | toJson }}}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
