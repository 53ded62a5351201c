//go:build tools

package main

import (
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
