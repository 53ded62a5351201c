// Command git-server serves the Git repositories of a folder over HTTP, as Git's own http-backend answers:
//
//	git-server FOLDER ADDRESS
package main

import (
	"log"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"strings"
)

func main() {
	programs, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		log.Fatal(err)
	}
	handler := &cgi.Handler{
		Path: strings.TrimSpace(string(programs)) + "/git-http-backend",
		Env:  []string{"GIT_HTTP_EXPORT_ALL=1", "GIT_PROJECT_ROOT=" + os.Args[1]},
	}
	log.Fatal(http.ListenAndServe(os.Args[2], handler))
}
