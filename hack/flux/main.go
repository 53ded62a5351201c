// Command flux treats the objects of its standard input as GitOps tools do, with their libraries:
//
//	flux apply|diff|wait|delete   as Flux's kustomize-controller, on the cluster of KUBECONFIG
//	flux status                   tells what kstatus says of the objects, without a cluster
//	flux health SCRIPT            tells what a health script of Argo CD says of them, likewise
//
// It prints one line for each object, and for `wait` nothing.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/cli-utils/pkg/object"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	lua "github.com/yuin/gopher-lua"
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
	switch command {
	case "status":
		return each(objects, func(it *unstructured.Unstructured) (string, error) {
			result, err := kstatus.Compute(it)
			if err != nil {
				return "", err
			}
			return result.Status.String(), nil
		})
	case "health":
		return each(objects, health)
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
	return fmt.Errorf("unknown command %q; usage: flux apply|diff|wait|delete|status|health SCRIPT < OBJECTS", command)
}

func each(objects []*unstructured.Unstructured, tell func(*unstructured.Unstructured) (string, error)) error {
	for _, it := range objects {
		said, err := tell(it)
		if err != nil {
			return err
		}
		fmt.Println(it.GetKind(), it.GetName(), said)
	}
	return nil
}

// health runs the script as Argo CD does: with the object in the global `obj`; it returns a table with `status`.
func health(of *unstructured.Unstructured) (string, error) {
	script, err := os.ReadFile(os.Args[2])
	if err != nil {
		return "", err
	}
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", table(state, of.Object))
	if err := state.DoString(string(script)); err != nil {
		return "", err
	}
	result, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return "", fmt.Errorf("%s returns no table", os.Args[2])
	}
	return result.RawGetString("status").String(), nil
}

func table(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		result := state.NewTable()
		for key, member := range value {
			result.RawSetString(key, table(state, member))
		}
		return result
	case []any:
		result := state.NewTable()
		for _, member := range value {
			result.Append(table(state, member))
		}
		return result
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
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
	if len(os.Args) == 2 || len(os.Args) == 3 && os.Args[1] == "health" {
		command = os.Args[1]
	}
	if err := run(command); err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
}
