// The CRDs of others that our overlays use: data, never built. The tests of the manifests have
// an API server check against them.
module quartet-operator/hack/crds

go 1.26.3

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/operator-framework/api v0.45.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
