{{/*
What the schema cannot say well: each wrong value with its path and what to write, all at once. The schema checks
types, names of values, lists of choices and simple ranges.
*/}}

{{- define "memlane.checks" -}}
{{- $values := .Values -}}
{{- $faults := list -}}

{{- /* Texts of a form: value, pattern, what to write. Empty ones are left to the rules on what is required. */ -}}
{{- $name := "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" -}}
{{- $nameHelp := "write the name of a Secret: small letters, digits, - and ." -}}
{{- $key := "^[-._a-zA-Z0-9]+$" -}}
{{- $keyHelp := "write a key of that Secret: letters, digits, -, _ and ." -}}
{{- $host := "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$" -}}
{{- $hostHelp := "write a host name such as memory.example.com, without scheme, port or path" -}}
{{- $tag := "^[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}$" -}}
{{- $tagHelp := "write a tag such as 0.1.0: letters, digits, ., _, + and -" -}}
{{- $digest := "^sha256:[a-f0-9]{64}$" -}}
{{- $digestHelp := "write sha256: and 64 hexadecimal digits" -}}
{{- $repository := "^[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" -}}
{{- $repositoryHelp := "write it without a tag, such as registry.example.com/memlane" -}}
{{- $label := "^[a-z]([-a-z0-9]*[a-z0-9])?$" -}}
{{- $postgres := "^postgres(ql)?://.+" -}}
{{- $postgresHelp := "write postgresql://user:password@host/database" -}}
{{- $duration := "^([0-9]+(ms|s|m|h))+$" -}}
{{- $forms := list
  (list "image.repository" $values.image.repository $repository $repositoryHelp)
  (list "image.tag" $values.image.tag $tag $tagHelp)
  (list "image.digest" $values.image.digest $digest $digestHelp)
  (list "nameOverride" $values.nameOverride $label "write small letters, digits and -, a letter first")
  (list "fullnameOverride" $values.fullnameOverride $label "write small letters, digits and -, a letter first")
  (list "database.url" $values.database.url $postgres $postgresHelp)
  (list "database.existingSecret" $values.database.existingSecret $name $nameHelp)
  (list "database.secretKey" $values.database.secretKey $key $keyHelp)
  (list "database.migrations.url" $values.database.migrations.url $postgres $postgresHelp)
  (list "database.migrations.existingSecret" $values.database.migrations.existingSecret $name $nameHelp)
  (list "database.migrations.secretKey" $values.database.migrations.secretKey $key $keyHelp)
  (list "redis.url" $values.redis.url "^rediss?://.+" "write redis://host:6379/0, or rediss:// with TLS")
  (list "redis.existingSecret" $values.redis.existingSecret $name $nameHelp)
  (list "redis.secretKey" $values.redis.secretKey $key $keyHelp)
  (list "license.existingSecret" $values.license.existingSecret $name $nameHelp)
  (list "license.secretKey" $values.license.secretKey $key $keyHelp)
  (list "license.keys" $values.license.keys "^[A-Za-z0-9._-]{1,64}:[A-Za-z0-9_-]{43}( *, *[A-Za-z0-9._-]{1,64}:[A-Za-z0-9_-]{43})*$" "write what `memlane license keygen` prints: kid:key[,kid:key]")
  (list "joinSecrets.value" $values.joinSecrets.value "^[^,]{32,}(,[^,]{32,}){0,7}$" "write 1 to 8 secrets of 32 characters or more, separated by commas: openssl rand -hex 32")
  (list "joinSecrets.existingSecret" $values.joinSecrets.existingSecret $name $nameHelp)
  (list "joinSecrets.secretKey" $values.joinSecrets.secretKey $key $keyHelp)
  (list "externalSecrets.refreshInterval" $values.externalSecrets.refreshInterval $duration "write a time such as 1h")
  (list "tracing.endpoint" $values.tracing.endpoint "^https?://[^ ]+$" "write http://host:4318, the collector's OTLP port for HTTP")
  (list "metrics.serviceMonitor.interval" $values.metrics.serviceMonitor.interval $duration "write a time such as 30s")
  (list "embeddings.revision" $values.embeddings.revision "^([0-9a-f]{40}|refs/.+)$" "write the 40 hexadecimal digits of the model's commit")
  (list "embeddings.apiKey.existingSecret" $values.embeddings.apiKey.existingSecret $name $nameHelp)
  (list "embeddings.apiKey.secretKey" $values.embeddings.apiKey.secretKey $key $keyHelp)
  (list "embeddings.external.url" $values.embeddings.external.url "^(https?://[^ /?#@]+([/?#][^ ]*)?|local://.*)$" "write the provider's URL, such as https://api.openai.com/v1, without a password, or local://")
  (list "embeddings.external.apiKey.existingSecret" $values.embeddings.external.apiKey.existingSecret $name $nameHelp)
  (list "embeddings.external.apiKey.secretKey" $values.embeddings.external.apiKey.secretKey $key $keyHelp)
  (list "embeddings.image.repository" $values.embeddings.image.repository $repository $repositoryHelp)
  (list "embeddings.image.tag" $values.embeddings.image.tag $tag $tagHelp)
  (list "embeddings.image.digest" $values.embeddings.image.digest $digest $digestHelp)
  (list "embeddings.cache.existingClaim" $values.embeddings.cache.existingClaim $name "write the name of a PersistentVolumeClaim")
  (list "embeddings.cache.size" $values.embeddings.cache.size "^[1-9][0-9]*([.][0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$" "write a size such as 2Gi")
  (list "embeddings.mountedModel.existingClaim" $values.embeddings.mountedModel.existingClaim $name "write the name of a PersistentVolumeClaim")
  (list "embeddings.mountedModel.path" $values.embeddings.mountedModel.path "^/?[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*/?$" "write the model's folder inside the claim, such as all-MiniLM-L6-v2")
  (list "embeddings.huggingFaceToken.existingSecret" $values.embeddings.huggingFaceToken.existingSecret $name $nameHelp)
  (list "embeddings.huggingFaceToken.secretKey" $values.embeddings.huggingFaceToken.secretKey $key $keyHelp)
  (list "ingress.host" $values.ingress.host $host $hostHelp)
  (list "ingress.gatewayHost" $values.ingress.gatewayHost $host $hostHelp)
  (list "serviceAccount.name" $values.serviceAccount.name $name "write the name of a ServiceAccount")
-}}
{{- range $form := $forms -}}
{{- $text := toString (index $form 1) -}}
{{- if and $text (not (regexMatch (index $form 2) $text)) -}}
{{- $faults = append $faults (printf "%s: %s" (index $form 0) (index $form 3)) -}}
{{- end -}}
{{- end -}}
{{- /* Entries of a list that must differ: the program refuses one that is given twice. */ -}}
{{- $secrets := list -}}
{{- range $secret := splitList "," $values.joinSecrets.value -}}
{{- $secrets = append $secrets (trim $secret) -}}
{{- end -}}
{{- if ne (len $secrets) (len (uniq $secrets)) -}}
{{- $faults = append $faults "joinSecrets.value: a secret is given twice; write each once" -}}
{{- end -}}
{{- $keyIds := list -}}
{{- range $entry := splitList "," $values.license.keys -}}
{{- $keyIds = append $keyIds (trim (first (splitList ":" $entry))) -}}
{{- end -}}
{{- if ne (len $keyIds) (len (uniq $keyIds)) -}}
{{- $faults = append $faults "license.keys: a key id is given twice; write each once" -}}
{{- end -}}
{{- range $place, $host := $values.settings.mcpHosts -}}
{{- if not (regexMatch "^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?$" $host) -}}
{{- $faults = append $faults (printf "settings.mcpHosts[%d]: write a host name such as memory.example.com, with or without a port" $place) -}}
{{- end -}}
{{- end -}}
{{- range $place, $origin := $values.settings.allowedOrigins -}}
{{- if not (regexMatch "^https?://[^ /,]+$" $origin) -}}
{{- $faults = append $faults (printf "settings.allowedOrigins[%d]: write an origin such as https://app.example.com, without a path" $place) -}}
{{- end -}}
{{- end -}}

{{- /* Whole numbers, which may come quoted: value, least, most. */ -}}
{{- $numbers := list
  (list "database.poolSize" $values.database.poolSize 1 500)
  (list "settings.sessionHours" $values.settings.sessionHours 1 720)
  (list "settings.drainSeconds" $values.settings.drainSeconds 0 300)
  (list "settings.preStopSeconds" $values.settings.preStopSeconds 0 60)
  (list "metrics.port" $values.metrics.port 1024 65535)
  (list "migrations.timeoutSeconds" $values.migrations.timeoutSeconds 10 86400)
  (list "embeddings.dimensions" $values.embeddings.dimensions 1 4000)
  (list "embeddings.maxBatchTokens" $values.embeddings.maxBatchTokens 512 16777216)
  (list "embeddings.startupMinutes" $values.embeddings.startupMinutes 1 240)
  (list "ingress.timeoutSeconds" $values.ingress.timeoutSeconds 60 86400)
  (list "podSecurity.runAsUser" $values.podSecurity.runAsUser 1 2147483647)
  (list "podSecurity.runAsGroup" $values.podSecurity.runAsGroup 1 2147483647)
-}}
{{- if hasPrefix "local:" $values.embeddings.external.url -}}
{{- if ne (include "memlane.scalar" $values.embeddings.external.dimensions) "384" -}}
{{- $faults = append $faults "embeddings.external.dimensions: write 384, which the offline model of local:// has" -}}
{{- end -}}
{{- else if $values.embeddings.external.url -}}
{{- $numbers = append $numbers (list "embeddings.external.dimensions" $values.embeddings.external.dimensions 1 4000) -}}
{{- end -}}
{{- range $number := $numbers -}}
{{- $text := include "memlane.scalar" (index $number 1) -}}
{{- if or (not (regexMatch "^[0-9]{1,10}$" $text)) (lt (int64 $text) (int64 (index $number 2))) (gt (int64 $text) (int64 (index $number 3))) -}}
{{- $faults = append $faults (printf "%s: write a whole number from %d to %d" (index $number 0) (index $number 2) (index $number 3)) -}}
{{- end -}}
{{- end -}}
{{- if has (include "memlane.scalar" $values.metrics.port) (list "4201" "4401" "4501" "8080") -}}
{{- $faults = append $faults "metrics.port: that port serves requests; write another one, such as 9464" -}}
{{- end -}}

{{- /* What is required, and what excludes what. */ -}}
{{- if not $values.image.repository -}}
{{- $faults = append $faults "image.repository: required; build the image with `make image`, push it, and write where it is" -}}
{{- end -}}
{{- $wanted := dict
  "database" "database.url: required; write postgresql://user:password@host/database, or database.existingSecret"
  "redis" "redis.url: required; write redis://host:6379/0, or redis.existingSecret"
-}}
{{- if eq $values.deploymentMode "self_hosted" -}}
{{- $_ := set $wanted "license" "license.token: required when deploymentMode is self_hosted; write the token, or license.existingSecret" -}}
{{- if not $values.license.keys -}}
{{- $faults = append $faults "license.keys: required when deploymentMode is self_hosted; write what `memlane license keygen` prints" -}}
{{- end -}}
{{- end -}}
{{- range $secret, $text := $wanted -}}
{{- if not (include "memlane.secret" (dict "root" $ "secret" $secret) | fromYaml).from -}}
{{- $faults = append $faults $text -}}
{{- end -}}
{{- end -}}
{{- $twice := list
  (list "database.url" $values.database.url "database.existingSecret" $values.database.existingSecret)
  (list "database.migrations.url" $values.database.migrations.url "database.migrations.existingSecret" $values.database.migrations.existingSecret)
  (list "redis.url" $values.redis.url "redis.existingSecret" $values.redis.existingSecret)
  (list "license.token" $values.license.token "license.existingSecret" $values.license.existingSecret)
  (list "joinSecrets.value" $values.joinSecrets.value "joinSecrets.existingSecret" $values.joinSecrets.existingSecret)
  (list "embeddings.apiKey.value" $values.embeddings.apiKey.value "embeddings.apiKey.existingSecret" $values.embeddings.apiKey.existingSecret)
  (list "embeddings.mountedModel.existingClaim" $values.embeddings.mountedModel.existingClaim "embeddings.cache.existingClaim" $values.embeddings.cache.existingClaim)
  (list "embeddings.external.url" $values.embeddings.external.url "embeddings.mountedModel.existingClaim" $values.embeddings.mountedModel.existingClaim)
-}}
{{- range $pair := $twice -}}
{{- if and (index $pair 1) (index $pair 3) -}}
{{- $faults = append $faults (printf "%s: write this or %s, not both" (index $pair 0) (index $pair 2)) -}}
{{- end -}}
{{- end -}}
{{- $external := $values.externalSecrets -}}
{{- if and $external.enabled (not $external.store.name) -}}
{{- $faults = append $faults "externalSecrets.store.name: required when externalSecrets.enabled; write the name of your store" -}}
{{- end -}}
{{- range $secret := list "database" "migrations" "redis" "license" "joinSecrets" "embeddingsApiKey" -}}
{{- $remote := get $external $secret -}}
{{- if and $remote.key (not $external.enabled) -}}
{{- $faults = append $faults (printf "externalSecrets.%s.key: has no effect; write externalSecrets.enabled: true" $secret) -}}
{{- end -}}
{{- if and $remote.property (not $remote.key) -}}
{{- $faults = append $faults (printf "externalSecrets.%s.key: required beside its property; write the secret's name in the store" $secret) -}}
{{- end -}}
{{- end -}}

{{- /* The embedder. */ -}}
{{- $embeddings := $values.embeddings -}}
{{- if $embeddings.external.url -}}
{{- if not $embeddings.external.model -}}
{{- $faults = append $faults "embeddings.external.model: required beside the url; write the provider's name of the model" -}}
{{- end -}}
{{- if $embeddings.apiKey.value -}}
{{- $faults = append $faults "embeddings.apiKey.value: is of the service in the cluster; write embeddings.external.apiKey.existingSecret" -}}
{{- end -}}
{{- else -}}
{{- range $field := list "model" "dimensions" -}}
{{- if not (has (get $embeddings.external $field | toString) (list "" "0")) -}}
{{- $faults = append $faults (printf "embeddings.external.url: required beside embeddings.external.%s; write the provider's URL" $field) -}}
{{- end -}}
{{- end -}}
{{- if $embeddings.external.apiKey.existingSecret -}}
{{- $faults = append $faults "embeddings.external.url: required beside embeddings.external.apiKey; write the provider's URL" -}}
{{- end -}}
{{- if not $embeddings.model -}}
{{- $faults = append $faults "embeddings.model: required; write the model's name, or use embeddings.external" -}}
{{- end -}}
{{- if $embeddings.mountedModel.existingClaim -}}
{{- if not $embeddings.mountedModel.path -}}
{{- $faults = append $faults "embeddings.mountedModel.path: required beside the claim; write the model's folder inside it" -}}
{{- end -}}
{{- else -}}
{{- if $embeddings.mountedModel.path -}}
{{- $faults = append $faults "embeddings.mountedModel.existingClaim: required beside the path; write the claim that holds the model" -}}
{{- end -}}
{{- if not $embeddings.revision -}}
{{- $faults = append $faults "embeddings.revision: required; write the 40 hexadecimal digits of the model's commit" -}}
{{- end -}}
{{- if and (gt (int64 $embeddings.replicas) 1) $embeddings.cache.enabled (ne $embeddings.cache.accessMode "ReadWriteMany") -}}
{{- $faults = append $faults "embeddings.replicas: one pod alone can use that cache; write 1, or embeddings.cache.accessMode: ReadWriteMany" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Doors, networks, scaling. */ -}}
{{- if and $values.ingress.enabled (not $values.ingress.host) -}}
{{- $faults = append $faults "ingress.host: required when ingress.enabled; write a host name such as memory.example.com" -}}
{{- end -}}
{{- $hosts := list $values.ingress.host (default $values.ingress.host $values.ingress.gatewayHost) -}}
{{- range $place, $tls := $values.ingress.tls -}}
{{- range $one := $tls.hosts -}}
{{- if not (has $one $hosts) -}}
{{- $faults = append $faults (printf "ingress.tls[%d].hosts: %s is no host of the Ingress; write ingress.host or ingress.gatewayHost" $place $one) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $values.networkPolicy.egress.enabled (not $values.networkPolicy.egress.rules) -}}
{{- $faults = append $faults "networkPolicy.egress.rules: required when egress.enabled; write rules that reach the database and Redis" -}}
{{- end -}}
{{- range $role := list "api" "gateway" -}}
{{- $scaling := (get $values $role).autoscaling -}}
{{- if and $scaling.enabled (gt (int64 $scaling.minReplicas) (int64 $scaling.maxReplicas)) -}}
{{- $faults = append $faults (printf "%s.autoscaling.maxReplicas: write a number that is not below minReplicas" $role) -}}
{{- end -}}
{{- if and $scaling.enabled (not (dig "requests" "cpu" "" (get $values $role).resources)) -}}
{{- $faults = append $faults (printf "%s.resources.requests.cpu: required for autoscaling; write what a pod needs, such as 500m" $role) -}}
{{- end -}}
{{- end -}}
{{- $ofChart := list
  "DATABASE_URL" "REDIS_URL" "MEMLANE_JOIN_SECRETS" "MEMLANE_LICENSE"
  "MEMLANE_LICENSE_KEYS" "MEMLANE_PORT" "MEMLANE_METRICS_PORT" "MEMLANE_DEPLOYMENT_MODE"
  "MEMLANE_DATABASE_POOL" "MEMLANE_DATABASE_POOLER" "MEMLANE_LOG_LEVEL" "MEMLANE_SESSION_HOURS"
  "MEMLANE_DRAIN_SECONDS" "MEMLANE_ALLOWED_ORIGINS" "MEMLANE_MCP_HOSTS" "MEMORY_EMBEDDINGS_URL" "MEMORY_EMBEDDING_MODEL"
  "MEMORY_EMBEDDING_DIMENSIONS" "MEMORY_EMBEDDINGS_API_KEY" "OTEL_EXPORTER_OTLP_ENDPOINT" "OTEL_SERVICE_NAME"
  "OTEL_TRACES_SAMPLER" "OTEL_TRACES_SAMPLER_ARG"
-}}
{{- range $role := list "api" "gateway" "worker" -}}
{{- range $variable, $value := (get $values $role).extraEnv -}}
{{- if not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" $variable) -}}
{{- $faults = append $faults (printf "%s.extraEnv.%s: write a variable's name: letters, digits and _" $role $variable) -}}
{{- else if has $variable $ofChart -}}
{{- $faults = append $faults (printf "%s.extraEnv.%s: the chart sets it; write the value that README.md names for it" $role $variable) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- range $role := list "api" "gateway" "worker" -}}
{{- range $variable, $value := (get $values $role).extraEnv -}}
{{- if kindIs "map" $value -}}
{{- if not (and (dig "secretKeyRef" "name" "" $value) (dig "secretKeyRef" "key" "" $value)) -}}
{{- $faults = append $faults (printf "%s.extraEnv.%s: write a text, a number, or {secretKeyRef: {name, key}}" $role $variable) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $part := list "api" "gateway" "worker" "migrations" "embeddings" -}}
{{- range $kind, $amounts := (get $values $part).resources -}}
{{- range $resource, $amount := $amounts -}}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$" (include "memlane.scalar" $amount)) -}}
{{- $faults = append $faults (printf "%s.resources.%s.%s: write an amount such as 500m or 256Mi" $part $kind $resource) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $role := list "api" "gateway" -}}
{{- if not (regexMatch "^[0-9]+%?$" (include "memlane.scalar" (get $values $role).podDisruptionBudget.maxUnavailable)) -}}
{{- $faults = append $faults (printf "%s.podDisruptionBudget.maxUnavailable: write a number of pods, or a percentage such as 25%%" $role) -}}
{{- end -}}
{{- end -}}

{{- if $faults -}}
{{- fail (printf "\n\n%d value(s) are wrong:\n  %s\n" (len $faults) ($faults | join "\n  ")) -}}
{{- end -}}
{{- end -}}
