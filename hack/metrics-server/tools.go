//go:build tools

package main

import (
	_ "sigs.k8s.io/metrics-server/cmd/metrics-server"
)
