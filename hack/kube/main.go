// Command kube is one binary that is kube-apiserver, kube-controller-manager,
// kube-scheduler, kubelet, kube-proxy, kubectl and what the other files of its folder
// add, chosen by the name it is called by (argv[0]). One link step instead of eight: the
// components share most of their packages, so the build takes a quarter of the time and
// of the disk.
//
// It depends on the components' own entry points only and must not change what they do.
// ../kube-oldest is this file with the modules of an older Kubernetes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // for time zones of CronJobs, as in the components' own mains

	_ "k8s.io/client-go/plugin/pkg/client/auth" // as in kubectl's own main
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // JSON log format, as in the components' own mains
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// exitWithStdin names the variable that makes a server end when its standard input
// closes. The parent holds the other end of that pipe, so the kernel closes it however
// the parent dies, SIGKILL included, and no component outlives the one who started it.
const exitWithStdin = "KUBE_EXIT_WITH_STDIN"

// Other files add theirs when they are initialised.
var components = map[string]func() int{
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":              func() int { return cli.Run(kubeproxy.NewProxyCommand()) },
	"kubectl":                 runKubectl,
}

func main() {
	name := filepath.Base(os.Args[0])
	run, known := components[name]
	if !known {
		names := make([]string, 0, len(components))
		for component := range components {
			names = append(names, component)
		}
		fmt.Fprintf(os.Stderr, "kube: called as %q; call it through a link named one of: %s\n", name, strings.Join(names, ", "))
		os.Exit(64)
	}
	if os.Getenv(exitWithStdin) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	os.Exit(run())
}

// runKubectl follows k8s.io/kubernetes/cmd/kubectl/kubectl.go.
func runKubectl() int {
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
