// Command flux applies, compares, waits for and deletes the objects of its standard input with the libraries
// of Flux's kustomize-controller, as that controller does: flux apply|diff|wait|delete.
// It prints one line for each object, `Kind/namespace/name action`, and for `wait` nothing.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/cli-utils/pkg/object"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// The field manager and the prefix of the owner labels of kustomize-controller.
var owner = ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"}

func run(command string) error {
	objects, err := utils.ReadObjects(bufio.NewReader(os.Stdin))
	if err != nil {
		return err
	}
	restConfig, err := config.GetConfig()
	if err != nil {
		return err
	}
	api, err := client.New(restConfig, client.Options{})
	if err != nil {
		return err
	}
	poller := polling.NewStatusPoller(api, api.RESTMapper(), polling.Options{})
	manager := ssa.NewResourceManager(api, poller, owner)
	manager.SetOwnerLabels(objects, "apps", "flux-system")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch command {
	case "apply":
		changes, err := manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
		return show(changes, err)
	case "diff":
		return diff(ctx, manager, objects)
	case "wait":
		options := ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: 30 * time.Second, FailFast: true}
		return manager.WaitForSet(object.UnstructuredSetToObjMetadataSet(objects), options)
	case "delete":
		changes, err := manager.DeleteAll(ctx, objects, ssa.DefaultDeleteOptions())
		return show(changes, err)
	}
	return fmt.Errorf("unknown command %q; usage: flux apply|diff|wait|delete < OBJECTS", command)
}

func diff(ctx context.Context, manager *ssa.ResourceManager, objects []*unstructured.Unstructured) error {
	for _, wanted := range objects {
		entry, _, _, err := manager.Diff(ctx, wanted, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		fmt.Println(entry.Subject, entry.Action)
	}
	return nil
}

func show(changes *ssa.ChangeSet, err error) error {
	if err != nil {
		return err
	}
	for _, entry := range changes.Entries {
		fmt.Println(entry.Subject, entry.Action)
	}
	return nil
}

func main() {
	command := ""
	if len(os.Args) == 2 {
		command = os.Args[1]
	}
	if err := run(command); err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
}
