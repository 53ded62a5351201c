//go:build tools

package main

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
