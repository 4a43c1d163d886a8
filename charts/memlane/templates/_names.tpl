{{/* Names and labels. */}}

{{/*
The beginning of every name: at most 43 characters, so that the longest ending still makes a name of 63. What is cut
gets a hash in its place, so that two long names stay two.
*/}}
{{- define "memlane.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- if gt (len $full) 43 -}}
{{- $full = printf "%s-%s" ($full | trunc 34 | trimSuffix "-") ($full | sha256sum | trunc 8) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* A workload's name. Takes {root, component}. */}}
{{- define "memlane.component" -}}
{{- printf "%s-%s" (include "memlane.fullname" .root) .component -}}
{{- end -}}

{{/* What selects a workload's pods; never changes during a release's life. Takes {root, component}. */}}
{{- define "memlane.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .root.Release.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The labels of an object. Takes {root, component, and perhaps more: labels of the caller's}. */}}
{{- define "memlane.labels" -}}
{{- $own := include "memlane.selector" . | fromYaml -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $own "app.kubernetes.io/version" (include "memlane.version" .root) -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- range $key, $value := merge dict (default dict .more) .root.Values.commonLabels -}}
{{- if not (hasKey $own $key) -}}{{- $_ := set $own $key (include "memlane.scalar" $value) -}}{{- end -}}
{{- end -}}
{{- include "memlane.quoted" $own -}}
{{- end -}}

{{/* The version as a label's value. */}}
{{- define "memlane.version" -}}
{{- default .Chart.AppVersion .Values.image.tag | toString | replace "+" "_" | trunc 63 | trimSuffix "-" | trimSuffix "_" | trimSuffix "." -}}
{{- end -}}

{{/* The ServiceAccount of a workload. Takes {root, component}. */}}
{{- define "memlane.serviceAccount" -}}
{{- if .root.Values.serviceAccount.create -}}
{{- include "memlane.component" . -}}
{{- else -}}
{{- default "default" .root.Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The product's image. */}}
{{- define "memlane.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag | toString | replace "+" "_") -}}
{{- end -}}
{{- end -}}

{{/* A number or text as text: Helm hands large numbers over as floats, which print as 1.048576e+06. */}}
{{- define "memlane.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ toString . }}{{- end -}}
{{- end -}}

{{/* Labels or annotations, each value as text. */}}
{{- define "memlane.quoted" -}}
{{- $lines := list -}}
{{- range $key, $value := . -}}
{{- $lines = append $lines (printf "%s: %s" ($key | quote) (include "memlane.scalar" $value | quote)) -}}
{{- end -}}
{{- $lines | join "\n" -}}
{{- end -}}

{{/* What serves embeddings: yes when it runs in the cluster. */}}
{{- define "memlane.embeddingsInCluster" -}}
{{- if not .Values.embeddings.external.url -}}yes{{- end -}}
{{- end -}}
