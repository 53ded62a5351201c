#!/usr/bin/env bash
# Builds the manager with the fifth operator of docs/development.md in a copy of the checkout, and
# prints the folder of the copy. Runs the page's command and applies its two patches.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/fifth")
checkout=$folder/checkout
rm -rf "$checkout"
mkdir -p "$checkout"
git ls-files -z --cached --others --exclude-standard |
    xargs -0 cp --parents --preserve --target-directory="$checkout"
page=$PWD/docs/development.md
cd "$checkout"
git init --quiet
export CARGO_TARGET_DIR=$folder/target
{
    eval "$(sed -n 's/^\$ make kind \(.*\)$/env \1 hack\/kind.sh/p' "$page")"
    awk '/^```/ { inside = $0 == "```diff"; next } inside' "$page" | git apply
    make manifests
    cargo build --locked --bin manager
} >&2
echo "$checkout"
