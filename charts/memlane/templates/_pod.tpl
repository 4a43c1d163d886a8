{{/* What the pods have in common: Pod Security "restricted", a read-only root, no token, no variables of Services. */}}

{{/* The pod's part. Takes {root, component}. */}}
{{- define "memlane.podDefaults" -}}
serviceAccountName: {{ include "memlane.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ include "memlane.scalar" .root.Values.podSecurity.runAsUser }}
  runAsGroup: {{ include "memlane.scalar" .root.Values.podSecurity.runAsGroup }}
  fsGroup: {{ include "memlane.scalar" .root.Values.podSecurity.runAsGroup }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The container's part. */}}
{{- define "memlane.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Where pods run. Takes the values that say so. */}}
{{- define "memlane.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- include "memlane.quoted" . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Pods spread over nodes and zones where there are any. Takes {root, component}. */}}
{{- define "memlane.spread" -}}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "memlane.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{/*
How long a role may take to end: the wait before SIGTERM, the drain, closing its sockets, then requests under way
(10 s) and its own parts (10 s), and 5 s to spare.
*/}}
{{- define "memlane.graceSeconds" -}}
{{- $sockets := ternary 20 0 (eq .component "realtime-gateway") -}}
{{- add (include "memlane.scalar" .root.Values.settings.preStopSeconds | int64) (include "memlane.scalar" .root.Values.settings.drainSeconds | int64) $sockets 25 -}}
{{- end -}}
