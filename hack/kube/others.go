package main

// What is not of Kubernetes' own version: etcd, and kwok in place of kubelets.

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

func init() {
	components["etcd"] = runEtcd
	components["kwok"] = runKwok
	components["kwok-stages"] = printStages
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKwok follows sigs.k8s.io/kwok/cmd/kwok/main.go, but for the version: component-base
// registers a global --version flag, and cobra panics when kwok's own is added to it.
func runKwok() int {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("Init config flags", "err", err)
		return 1
	}
	var command *cobra.Command = kwok.NewCommand(ctx)
	command.Version = ""
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("Execute exit", "err", err)
		return 1
	}
	return 0
}

// printStages prints kwok's own default stages, which are embedded in its packages and
// which kwok wants as a file: nodes and pods become Ready at once, and vanish when deleted.
func printStages() int {
	stages := []string{
		nodefast.DefaultNodeInit,
		nodelease.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}
	fmt.Println(strings.Join(stages, "\n---\n"))
	return 0
}
