{{/* A role as a Deployment and all that belongs to it. Each takes {root, component, role, port, values}. */}}

{{- define "memlane.workload" -}}
{{- include "memlane.deployment" . }}
---
{{ include "memlane.service" . }}
{{- if dig "autoscaling" "enabled" false .values }}
---
{{ include "memlane.autoscaler" . }}
{{- end }}
{{- if dig "podDisruptionBudget" "enabled" false .values }}
---
{{ include "memlane.disruptionBudget" . }}
{{- end }}
{{- if .root.Values.serviceAccount.create }}
---
{{ include "memlane.serviceAccountObject" . }}
{{- end }}
{{- end -}}

{{- define "memlane.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "memlane.component" . }}
  labels: {{- include "memlane.labels" . | nindent 4 }}
spec:
  {{- if not (dig "autoscaling" "enabled" false .values) }}
  replicas: {{ include "memlane.scalar" .values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  selector:
    matchLabels: {{- include "memlane.selector" . | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      labels: {{- include "memlane.labels" (merge (dict "more" .values.podLabels) .) | nindent 8 }}
      {{- with include "memlane.podAnnotations" (dict "root" .root "secrets" (include "memlane.secretsOf" . | fromJsonArray) "more" .values.podAnnotations) }}
      annotations: {{- . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "memlane.podDefaults" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ include "memlane.graceSeconds" . }}
      {{- with include "memlane.placement" .values | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- include "memlane.spread" . | nindent 6 }}
      containers:
        - name: {{ .component }}
          image: {{ include "memlane.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [{{ .role }}]
          env: {{- include "memlane.environment" . | nindent 12 }}
          ports:
            - {name: http, containerPort: {{ .port }}}
            - {name: metrics, containerPort: {{ include "memlane.scalar" .root.Values.metrics.port }}}
          startupProbe:
            httpGet: {path: /api/live, port: http}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /api/live, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /api/accepting, port: http}
            periodSeconds: 2
            timeoutSeconds: 3
            failureThreshold: 2
          lifecycle:
            preStop:
              exec: {command: [sleep, {{ include "memlane.scalar" .root.Values.settings.preStopSeconds | quote }}]}
          resources: {{ toJson .values.resources }}
          securityContext: {{- include "memlane.containerSecurity" . | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
      volumes:
        - name: tmp
          emptyDir: {sizeLimit: 64Mi}
{{- end -}}

{{- define "memlane.service" -}}
{{- $service := default (dict "type" "ClusterIP" "port" .port "annotations" dict) (get .values "service") -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "memlane.component" . }}
  labels: {{- include "memlane.labels" . | nindent 4 }}
  {{- with $service.annotations }}
  annotations: {{- include "memlane.quoted" . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $service.type }}
  selector: {{- include "memlane.selector" . | nindent 4 }}
  ports:
    - {name: http, port: {{ include "memlane.scalar" $service.port }}, targetPort: http, protocol: TCP}
    {{- if eq $service.type "ClusterIP" }}
    - {name: metrics, port: {{ include "memlane.scalar" .root.Values.metrics.port }}, targetPort: metrics, protocol: TCP}
    {{- end }}
{{- end -}}

{{- define "memlane.autoscaler" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "memlane.component" . }}
  labels: {{- include "memlane.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ include "memlane.component" . }}}
  minReplicas: {{ include "memlane.scalar" .values.autoscaling.minReplicas }}
  maxReplicas: {{ include "memlane.scalar" .values.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ include "memlane.scalar" .values.autoscaling.targetCPUUtilizationPercentage }}}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 300}
{{- end -}}

{{- define "memlane.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "memlane.component" . }}
  labels: {{- include "memlane.labels" . | nindent 4 }}
spec:
  {{- $most := include "memlane.scalar" .values.podDisruptionBudget.maxUnavailable }}
  maxUnavailable: {{ ternary ($most | quote) $most (hasSuffix "%" $most) }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "memlane.selector" . | nindent 6 }}
{{- end -}}

{{- define "memlane.serviceAccountObject" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "memlane.component" . }}
  labels: {{- include "memlane.labels" . | nindent 4 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations: {{- include "memlane.quoted" . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}
