{{- define "enricher.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "enricher.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "enricher.labels" -}}
{{ include "enricher.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "enricher.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "enricher.fullname" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- /* A size such as 512MiB, or Kubernetes' 512Mi, in MiB, rounded up. */ -}}
{{- define "enricher.mebibytes" -}}
{{- $number := regexFind "^[0-9]+" . | float64 -}}
{{- $unit := regexReplaceAll "^[0-9]+ *" . "" | trimSuffix "B" -}}
{{- $factor := get (dict "Ki" 0.0009765625 "Mi" 1.0 "Gi" 1024.0 "Ti" 1048576.0) $unit -}}
{{- if not $factor }}{{ fail (printf "%s: want a whole number of KiB, MiB, GiB or TiB" .) }}{{ end -}}
{{- mulf $number $factor | ceil | int64 -}}
{{- end }}

{{- /* The least memory limit: store.memory + 400 MiB + 1.2 x the data. */ -}}
{{- define "enricher.leastMemory" -}}
{{- $memory := include "enricher.mebibytes" .Values.store.memory | float64 -}}
{{- $data := include "enricher.mebibytes" .Values.store.dataSize | float64 -}}
{{- addf $memory 400.0 (mulf $data 1.2) | ceil | int64 -}}
{{- end }}

{{- define "enricher.memory" -}}
{{- $least := include "enricher.leastMemory" . | int64 -}}
{{- if .Values.resources.memory -}}
{{- if lt (include "enricher.mebibytes" .Values.resources.memory | int64) $least -}}
{{- fail (printf "resources.memory: %s is too little for store.memory %s and store.dataSize %s: want at least %dMi (below it the page cache does not hold the rows and lookups are about 30 times slower)" .Values.resources.memory .Values.store.memory .Values.store.dataSize $least) -}}
{{- end -}}
{{- .Values.resources.memory -}}
{{- else -}}
{{- printf "%dMi" $least -}}
{{- end -}}
{{- end }}

{{- define "enricher.volumeSize" -}}
{{- if .Values.store.volumeSize }}{{ .Values.store.volumeSize | trimSuffix "B" }}{{ else -}}
{{- printf "%dMi" (add (mul 2 (include "enricher.mebibytes" .Values.store.dataSize | int64)) 2048) -}}
{{- end -}}
{{- end }}

{{- /* processing.shutdown_grace in seconds, rounded up. */ -}}
{{- define "enricher.graceSeconds" -}}
{{- $config := fromYaml .Values.config -}}
{{- if $config.Error }}{{ fail (printf "config: %s" $config.Error) }}{{ end -}}
{{- $text := dig "processing" "shutdown_grace" "30s" $config | toString -}}
{{- $total := 0.0 -}}
{{- if not (regexMatch "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$" $text) }}{{ fail (printf "config.processing.shutdown_grace: %s: want a duration such as 30s or 1m30s" $text) }}{{ end -}}
{{- range regexFindAll "[0-9]+(\\.[0-9]+)?(ms|s|m|h)" $text -1 -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" . | float64 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $total = addf $total (mulf $number (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit)) -}}
{{- end -}}
{{- ceil $total | int64 -}}
{{- end }}

{{- /* What the chart decides about the configuration, as environment variables: the file itself stays as it was written, with its order. */ -}}
{{- define "enricher.overrides" -}}
- {name: ENRICHER_STORE__DIR, value: /var/lib/enricher}
- {name: ENRICHER_STORE__MEMORY, value: {{ .Values.store.memory | quote }}}
- {name: ENRICHER_ADMIN__LISTEN, value: {{ printf "0.0.0.0:%d" (int64 .Values.admin.port) | quote }}}
{{- if .Values.admin.existingSecret }}
- {name: ENRICHER_ADMIN__TOKEN_FILE, value: /etc/enricher-admin/{{ .Values.admin.tokenKey }}}
{{- end }}
{{- with .Values.kafka.sasl }}{{ if .existingSecret }}
{{- if .usernameKey }}
- name: ENRICHER_KAFKA__SASL__USERNAME
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .usernameKey }}}}
{{- end }}
- {name: ENRICHER_KAFKA__SASL__PASSWORD_FILE, value: /etc/enricher-sasl/{{ .passwordKey }}}
{{- end }}{{ end }}
{{- with .Values.kafka.tls }}{{ if .existingSecret }}
- {name: ENRICHER_KAFKA__TLS__ENABLED, value: "true"}
{{- with .caKey }}
- {name: ENRICHER_KAFKA__TLS__CA_FILE, value: /etc/enricher-tls/{{ . }}}
{{- end }}
{{- with .certKey }}
- {name: ENRICHER_KAFKA__TLS__CERT_FILE, value: /etc/enricher-tls/{{ . }}}
{{- end }}
{{- with .keyKey }}
- {name: ENRICHER_KAFKA__TLS__KEY_FILE, value: /etc/enricher-tls/{{ . }}}
{{- end }}
{{- end }}{{ end }}
{{- end }}
