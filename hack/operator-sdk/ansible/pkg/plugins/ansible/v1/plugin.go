// Package v1 stands in for the scaffolding of Ansible operators, whose module cannot be had
// from the module proxies. operator-sdk lists the plugin; it scaffolds nothing.
package v1

import (
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	configv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
)

// Plugin is a plugin of the name that operator-sdk registers.
type Plugin struct{}

// Name of the plugin.
func (Plugin) Name() string { return "base.ansible.sdk.operatorframework.io" }

// Version of the plugin.
func (Plugin) Version() plugin.Version { return plugin.Version{Number: 1} }

// SupportedProjectVersions of the plugin.
func (Plugin) SupportedProjectVersions() []config.Version { return []config.Version{configv3.Version} }
