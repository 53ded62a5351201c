//go:build tools

package main

import (
	_ "github.com/yannh/kubeconform/cmd/kubeconform"
)
