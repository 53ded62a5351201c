// A manager of the four kinds on controller-runtime, which `make bench-peer` measures beside the
// Rust one. It does the least work that controller-runtime can be made to do; best.go has how. With
// --webhook-port it serves the webhooks of Memcached instead, without a cluster, for
// `make bench-webhook`.
package main

import (
	"flag"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The benchmark finds the requests of this manager by it.
const userAgent = "go-peer/1.0"

func main() {
	// controller-runtime adds --kubeconfig.
	metricsAddress := flag.String("metrics-bind-address", "0", "plain HTTP metrics, 0: none")
	healthAddress := flag.String("health-probe-bind-address", "0", "healthz and readyz, 0: none")
	webhookPort := flag.Int("webhook-port", 0, "serve only the webhooks, at this port of loopback, 0: none")
	webhookCertPath := flag.String("webhook-cert-path", "", "folder of tls.crt and tls.key")
	flag.Parse()

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	addToScheme(scheme)
	ctrl.SetLogger(zap.New())

	if *webhookPort != 0 {
		must(serveWebhooks(scheme, *webhookPort, *webhookCertPath))
		return
	}

	config := ctrl.GetConfigOrDie()
	config.UserAgent = userAgent
	config.QPS = -1 // priority and fairness is the API server's job
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: *metricsAddress},
		HealthProbeBindAddress: *healthAddress,
		Cache:                  caches(),
	})
	must(err)
	must(manager.AddHealthzCheck("healthz", healthz.Ping))
	must(manager.AddReadyzCheck("readyz", healthz.Ping))
	must(indexPods(manager))
	must((&best[*Memcached]{manager.GetClient(), func() *Memcached { return &Memcached{} }}).SetupWithManager(manager))
	must((&best[*Nginx]{manager.GetClient(), func() *Nginx { return &Nginx{} }}).SetupWithManager(manager))
	must((&best[*HelloWorld]{manager.GetClient(), func() *HelloWorld { return &HelloWorld{} }}).SetupWithManager(manager))
	must((&best[*ElasticWeb]{manager.GetClient(), func() *ElasticWeb { return &ElasticWeb{} }}).SetupWithManager(manager))
	must(manager.Start(ctrl.SetupSignalHandler()))
}

// Children by label, pods as metadata only, and of each object no more than is read.
func caches() cache.Options {
	ours := labels.SelectorFromSet(labels.Set{labelManagedBy: managedBy})
	owned := cache.ByObject{Label: ours, UnsafeDisableDeepCopy: ptr.To(true)} // never written to
	pods := owned
	pods.Transform = func(o any) (any, error) { // names and labels are all that is read of a pod
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			m.ManagedFields, m.Annotations, m.OwnerReferences = nil, nil, nil
		}
		return o, nil
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}: owned,
			&corev1.Service{}:    owned,
			&corev1.Pod{}:        pods,
		},
	}
}

func must(err error) {
	if err != nil {
		ctrl.Log.Error(err, "go-peer")
		os.Exit(1)
	}
}
