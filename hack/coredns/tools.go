//go:build tools

package main

import _ "github.com/coredns/coredns"
