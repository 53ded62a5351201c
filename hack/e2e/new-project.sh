#!/usr/bin/env bash
# Writes the project of docs/new-project.md to target/new-project/redis-operator, with the page's command and its two
# patches, and compiles what its image and its manifests need, since the node has no network.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/new-project")
page=$PWD/docs/new-project.md
project=$folder/redis-operator
# What it compiled before is kept.
mkdir -p "$folder"
find "$folder" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
eval "$(sed -nE "s|^\\$ (cargo run .* new) [^ ]+ |\1 $project --make=false |p" "$page")"
cd "$project"
export CARGO_TARGET_DIR=$folder/target
git init --quiet
awk '/^```/ { inside = $0 == "```diff"; next } inside' "$page" | git apply
make manifests
# The first half of `make docker-build`.
bash hack/image.sh binary "$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')"
