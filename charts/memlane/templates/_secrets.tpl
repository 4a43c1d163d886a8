{{/*
Where every secret comes from. One helper decides for each consumer: a Secret of the operator's, the External Secrets
Operator, or the chart's own Secret.
*/}}

{{/* Each secret: the Secret of the operator's, whether the chart makes it, and the key that it has then. */}}
{{- define "memlane.secretSources" -}}
{{- $embeddings := .Values.embeddings -}}
{{- $inCluster := not (empty (include "memlane.embeddingsInCluster" .)) -}}
{{- $embeddingsKey := ternary $embeddings.apiKey $embeddings.external.apiKey $inCluster -}}
{{- dict
  "database" (dict "at" .Values.database "made" .Values.database.url "key" "DATABASE_URL")
  "redis" (dict "at" .Values.redis "made" .Values.redis.url "key" "REDIS_URL")
  "license" (dict "at" .Values.license "made" .Values.license.token "key" "MEMLANE_LICENSE")
  "joinSecrets" (dict "at" .Values.joinSecrets "made" "always" "key" "MEMLANE_JOIN_SECRETS")
  "embeddingsApiKey" (dict "at" $embeddingsKey "made" (get $embeddingsKey "value") "key" "MEMORY_EMBEDDINGS_API_KEY")
| toJson -}}
{{- end -}}

{{/* Where one secret is, as `from`, `name` and `key`; `from` is empty when it is nowhere. Takes {root, secret}. */}}
{{- define "memlane.secret" -}}
{{- $source := get (include "memlane.secretSources" .root | fromJson) .secret -}}
{{- $external := .root.Values.externalSecrets -}}
{{- if $source.at.existingSecret -}}
{{- dict "from" "existing" "name" $source.at.existingSecret "key" $source.at.secretKey | toJson -}}
{{- else if and $external.enabled (get $external .secret).key -}}
{{- $name := include "memlane.component" (dict "root" .root "component" "external") -}}
{{- dict "from" "external" "name" $name "key" $source.key | toJson -}}
{{- else if $source.made -}}
{{- $name := include "memlane.component" (dict "root" .root "component" "secrets") -}}
{{- dict "from" "made" "name" $name "key" $source.key | toJson -}}
{{- else -}}
{{- dict "from" "" | toJson -}}
{{- end -}}
{{- end -}}

{{/*
The database's URL for the migrations. Their hook runs before anything else exists, so that what the chart makes for
them is a hook too.
*/}}
{{- define "memlane.migrationsSecret" -}}
{{- $own := .Values.database.migrations -}}
{{- $remote := .Values.externalSecrets.migrations -}}
{{- $hook := include "memlane.component" (dict "root" . "component" "migrations") -}}
{{- $database := include "memlane.secret" (dict "root" . "secret" "database") | fromYaml -}}
{{- if $own.existingSecret -}}
{{- dict "from" "existing" "name" $own.existingSecret "key" $own.secretKey | toJson -}}
{{- else if and .Values.externalSecrets.enabled $remote.key -}}
{{- dict "from" "external" "name" $hook "key" "DATABASE_URL" "remote" "migrations" | toJson -}}
{{- else if $own.url -}}
{{- dict "from" "made" "name" $hook "key" "DATABASE_URL" | toJson -}}
{{- else if eq $database.from "existing" -}}
{{- toJson $database -}}
{{- else if eq $database.from "external" -}}
{{- dict "from" "external" "name" $hook "key" "DATABASE_URL" "remote" "database" | toJson -}}
{{- else -}}
{{- dict "from" "made" "name" $hook "key" "DATABASE_URL" | toJson -}}
{{- end -}}
{{- end -}}

{{/* One variable from a secret; nothing when it is nowhere. Takes {root, secret, variable}. */}}
{{- define "memlane.secretVariable" -}}
{{- $found := include "memlane.secret" . | fromYaml -}}
{{- if $found.from }}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef: {name: {{ $found.name | quote }}, key: {{ $found.key | quote }}}
{{- end -}}
{{- end -}}

{{/* Whether the chart makes any secret itself. */}}
{{- define "memlane.makesSecrets" -}}
{{- range $name := list "database" "redis" "license" "joinSecrets" "embeddingsApiKey" -}}
{{- $found := include "memlane.secret" (dict "root" $ "secret" $name) | fromYaml -}}
{{- if eq $found.from "made" -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A random text that the chart's Secret keeps: what stands in the cluster stays. It is made once for a rendering, so
that the Secret and the checksum agree. Takes {root, key}.
*/}}
{{- define "memlane.kept" -}}
{{- $made := default dict (get .root.Values "madeSecrets") -}}
{{- if not (hasKey $made .key) -}}
{{- $name := include "memlane.component" (dict "root" .root "component" "secrets") -}}
{{- $standing := default dict (lookup "v1" "Secret" .root.Release.Namespace $name) -}}
{{- $encoded := get (default dict (get $standing "data")) .key -}}
{{- $_ := set $made .key (ternary (b64dec (default "" $encoded)) (randAlphaNum 48) (not (empty $encoded))) -}}
{{- $_ := set .root.Values "madeSecrets" $made -}}
{{- end -}}
{{- get $made .key -}}
{{- end -}}

{{/* The data of the chart's Secret. The salt keeps the checksum of a short password from being guessed. */}}
{{- define "memlane.madeSecrets" -}}
{{- $values := dict
  "database" .Values.database.url
  "redis" .Values.redis.url
  "license" .Values.license.token
  "joinSecrets" .Values.joinSecrets.value
  "embeddingsApiKey" .Values.embeddings.apiKey.value
-}}
{{- range $name, $value := $values }}
{{- $found := include "memlane.secret" (dict "root" $ "secret" $name) | fromYaml }}
{{- if eq $found.from "made" }}
{{- if and (eq $name "joinSecrets") (not $value) }}
{{- $value = include "memlane.kept" (dict "root" $ "key" $found.key) }}
{{- end }}
{{ $found.key }}: {{ $value | b64enc | quote }}
{{- end }}
{{- end }}
salt: {{ include "memlane.kept" (dict "root" . "key" "salt") | b64enc | quote }}
{{- end -}}

{{/*
Annotations of a workload's pods. Those of its secrets restart them when one changes: a salted checksum of the chart's
own, and of the operator's the versions that the cluster counts (never their values). Takes {root, secrets, more}.
*/}}
{{- define "memlane.podAnnotations" -}}
{{- $versions := list -}}
{{- $all := dict -}}
{{- range $name := .secrets -}}
{{- $found := include "memlane.secret" (dict "root" $.root "secret" $name) | fromYaml -}}
{{- if eq $found.from "made" -}}
{{- $_ := set $all "checksum/secrets" (include "memlane.madeSecrets" $.root | sha256sum) -}}
{{- else if $found.from -}}
{{- $standing := default dict (lookup "v1" "Secret" $.root.Release.Namespace $found.name) -}}
{{- $versions = append $versions (printf "%s/%s" $found.name (dig "metadata" "resourceVersion" "" $standing)) -}}
{{- end -}}
{{- end -}}
{{- if $versions -}}
{{- $_ := set $all "checksum/existing-secrets" ($versions | uniq | join "," | sha256sum) -}}
{{- end -}}
{{- include "memlane.quoted" (merge $all .more) -}}
{{- end -}}
