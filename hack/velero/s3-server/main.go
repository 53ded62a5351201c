// Command s3-server keeps objects in memory and serves them as S3 does, without credentials:
//
//	s3-server BUCKET ADDRESS
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	backend := s3mem.New()
	if err := backend.CreateBucket(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[2], gofakes3.New(backend).Server()))
}
