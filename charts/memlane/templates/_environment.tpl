{{/* The variables of each role: what docs/install.md lists, from the values of the same names. */}}

{{/* What every role reads. Takes {root, component, port}. */}}
{{- define "memlane.settings" -}}
{{- $values := .root.Values -}}
- {name: MEMLANE_PORT, value: {{ .port | quote }}}
- {name: MEMLANE_METRICS_PORT, value: {{ include "memlane.scalar" $values.metrics.port | quote }}}
- {name: MEMLANE_DEPLOYMENT_MODE, value: {{ $values.deploymentMode | quote }}}
- {name: MEMLANE_DATABASE_POOL, value: {{ include "memlane.scalar" $values.database.poolSize | quote }}}
- {name: MEMLANE_DATABASE_POOLER, value: {{ $values.database.pooler | quote }}}
- {name: MEMLANE_LOG_LEVEL, value: {{ $values.settings.logLevel | quote }}}
- {name: MEMLANE_SESSION_HOURS, value: {{ include "memlane.scalar" $values.settings.sessionHours | quote }}}
- {name: MEMLANE_DRAIN_SECONDS, value: {{ include "memlane.scalar" $values.settings.drainSeconds | quote }}}
- {name: MEMLANE_ALLOWED_ORIGINS, value: {{ default "*" ($values.settings.allowedOrigins | join ",") | quote }}}
{{- if $values.license.keys }}
- {name: MEMLANE_LICENSE_KEYS, value: {{ $values.license.keys | quote }}}
{{- end }}
{{- if $values.tracing.endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ $values.tracing.endpoint | quote }}}
- {name: OTEL_SERVICE_NAME, value: {{ printf "memlane-%s" .component | quote }}}
- {name: OTEL_TRACES_SAMPLER, value: parentbased_traceidratio}
- {name: OTEL_TRACES_SAMPLER_ARG, value: {{ toString $values.tracing.sampleRatio | quote }}}
{{- end }}
{{- end -}}

{{/* The embedder: the cluster's own, or the operator's provider. */}}
{{- define "memlane.embedderSettings" -}}
{{- $embeddings := .Values.embeddings -}}
{{- if include "memlane.embeddingsInCluster" . }}
- {name: MEMORY_EMBEDDINGS_URL, value: {{ printf "http://%s:8080" (include "memlane.component" (dict "root" . "component" "embeddings")) | quote }}}
- {name: MEMORY_EMBEDDING_MODEL, value: {{ $embeddings.model | quote }}}
- {name: MEMORY_EMBEDDING_DIMENSIONS, value: {{ include "memlane.scalar" $embeddings.dimensions | quote }}}
{{- else }}
- {name: MEMORY_EMBEDDINGS_URL, value: {{ $embeddings.external.url | quote }}}
- {name: MEMORY_EMBEDDING_MODEL, value: {{ $embeddings.external.model | quote }}}
- {name: MEMORY_EMBEDDING_DIMENSIONS, value: {{ include "memlane.scalar" $embeddings.external.dimensions | quote }}}
{{- end }}
{{- include "memlane.secretVariable" (dict "root" . "secret" "embeddingsApiKey" "variable" "MEMORY_EMBEDDINGS_API_KEY") }}
{{- end -}}

{{/* The names by which clients reach /mcp: within the cluster, through the ingress, and what the operator adds. */}}
{{- define "memlane.mcpHosts" -}}
{{- $service := include "memlane.component" (dict "root" . "component" "app-api") -}}
{{- $hosts := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) -}}
{{- if .Values.ingress.enabled }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end -}}
{{- concat $hosts .Values.settings.mcpHosts | uniq | join "," -}}
{{- end -}}

{{/* The names of the secrets that a role reads. */}}
{{- define "memlane.secretsOf" -}}
{{- $mode := ternary (list "license") list (eq .root.Values.deploymentMode "self_hosted") -}}
{{- $all := dict
  "app-api" (list "database" "joinSecrets" "redis" "embeddingsApiKey")
  "realtime-gateway" (list "database" "joinSecrets" "redis")
  "worker" (list "database" "joinSecrets")
-}}
{{- concat (get $all .component) $mode | toJson -}}
{{- end -}}

{{/* All variables of a role, the operator's own last. Takes {root, component, port, values}. */}}
{{- define "memlane.environment" -}}
{{- $names := dict "database" "DATABASE_URL" "redis" "REDIS_URL" "license" "MEMLANE_LICENSE" "joinSecrets" "MEMLANE_JOIN_SECRETS" -}}
{{ include "memlane.settings" . }}
{{- if eq .component "app-api" }}
- {name: MEMLANE_MCP_HOSTS, value: {{ include "memlane.mcpHosts" .root | quote }}}
{{- include "memlane.embedderSettings" .root }}
{{- end }}
{{- range $secret := include "memlane.secretsOf" . | fromJsonArray }}
{{- if hasKey $names $secret }}
{{- include "memlane.secretVariable" (dict "root" $.root "secret" $secret "variable" (get $names $secret)) }}
{{- end }}
{{- end }}
{{- range $name, $value := .values.extraEnv }}
{{- if kindIs "map" $value }}
- name: {{ $name | quote }}
  valueFrom: {{ toJson $value }}
{{- else }}
- {name: {{ $name | quote }}, value: {{ include "memlane.scalar" $value | quote }}}
{{- end }}
{{- end }}
{{- end -}}
