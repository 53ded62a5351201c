//go:build tools

package main

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
