{{/* The labels of every object. */}}
{{- define "quartet-operator.labels" -}}
app.kubernetes.io/name: quartet-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The selector of the manager's pods. */}}
{{- define "quartet-operator.selector" -}}
app.kubernetes.io/name: quartet-operator
control-plane: controller-manager
{{- end }}

{{/* Metadata of an object in the namespace of the release: dict "root" $ "name" … */}}
{{- define "quartet-operator.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "quartet-operator.labels" .root | nindent 2 }}
{{- end }}

{{/* Metadata of a cluster-scoped object: dict "root" $ "name" … */}}
{{- define "quartet-operator.clusterMetadata" -}}
name: {{ .name }}
labels:
  {{- include "quartet-operator.labels" .root | nindent 2 }}
{{- end }}

{{/* The subjects of the manager's role bindings. */}}
{{- define "quartet-operator.manager" -}}
- kind: ServiceAccount
  name: quartet-operator-controller-manager
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* The rules of the role in a file below files: dict "root" $ "file" … */}}
{{- define "quartet-operator.rules" -}}
{{- $role := .root.Files.Get (printf "files/%s" .file) | fromYaml -}}
{{ required (printf "files/%s has no rules" .file) $role.rules | toYaml }}
{{- end }}

{{/* The rules in a file that allow watches, with the verbs of watches only. */}}
{{- define "quartet-operator.watches" -}}
{{- $role := .root.Files.Get (printf "files/%s" .file) | fromYaml -}}
{{- $rules := list -}}
{{- range $role.rules -}}
{{- if has "watch" .verbs -}}
{{- $rules = append $rules (merge (dict "verbs" (list "list" "watch")) .) -}}
{{- end -}}
{{- end -}}
{{ required (printf "files/%s has no watches" .file) $rules | toYaml }}
{{- end }}

{{/* The image of the manager. */}}
{{- define "quartet-operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default (printf "v%s" $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true" if /metrics is served, otherwise empty. */}}
{{- define "quartet-operator.metrics" -}}
{{- $enabled := .Values.metrics.enabled -}}
{{- if kindIs "string" $enabled -}}
{{- $enabled = empty .Values.watchNamespaces -}}
{{- end -}}
{{- if $enabled }}true{{ end }}
{{- end }}

{{/* The Secret with the certificate of the metrics, or empty. */}}
{{- define "quartet-operator.metricsSecret" -}}
{{- if include "quartet-operator.metrics" . -}}
{{- if eq .Values.certificates.mode "cert-manager" -}}
metrics-server-cert
{{- else if eq .Values.certificates.mode "provided" -}}
{{ .Values.certificates.provided.metricsSecretName }}
{{- end }}
{{- end }}
{{- end }}

{{/* The caBundle that the chart sets, in base64, or empty. */}}
{{- define "quartet-operator.caBundle" -}}
{{- if eq .Values.certificates.mode "provided" -}}
{{- if contains "PRIVATE KEY" (toString .Values.certificates.provided.caBundle) -}}
{{- fail "certificates.provided.caBundle has a private key, and everybody may read a caBundle: give the certificates only" -}}
{{- end -}}
{{ required "certificates.provided.caBundle is empty: with certificates.mode=provided, give the PEM of the authority, e.g. --set-file certificates.provided.caBundle=ca.crt" .Values.certificates.provided.caBundle | b64enc }}
{{- end }}
{{- end }}

{{/* Annotations of objects with a caBundle. */}}
{{- define "quartet-operator.caAnnotations" -}}
{{- if eq .Values.certificates.mode "cert-manager" -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/quartet-operator-serving-cert
{{- end }}
{{- end }}

{{/* The issuer of the certificates, with cert-manager. */}}
{{- define "quartet-operator.issuerRef" -}}
{{- with .Values.certificates.certManager.issuerRef -}}
group: {{ .group | default "cert-manager.io" | quote }}
kind: {{ .kind | default "Issuer" | quote }}
name: {{ .name | quote }}
{{- else -}}
group: cert-manager.io
kind: Issuer
name: quartet-operator-issuer
{{- end }}
{{- end }}

{{/* Parameters of the private key of a certificate. */}}
{{- define "quartet-operator.privateKey" -}}
algorithm: ECDSA
size: 256
encoding: PKCS8
rotationPolicy: Always
{{- end }}
