#!/bin/sh
# Builds a cargo subcommand once per machine, out of the way of the user's own, and prints
# the folder that holds it: hack/cargo-tool.sh cargo-deny 0.18.5
set -eu

[ $# -eq 2 ] || {
    echo "usage: $0 CRATE VERSION" >&2
    exit 64
}
folder="${XDG_CACHE_HOME:-$HOME/.cache}/quartet-operator/$1/$2"
if [ ! -x "$folder/bin/$1" ]; then
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    if [ ! -x "$folder/bin/$1" ]; then
        echo "building $1 $2 from source, once, a few minutes on two cores…" >&2
        # A target folder of its own: this is not part of the workspace, nor of its flags.
        CARGO_TARGET_DIR="$folder/target" cargo install --quiet --locked --root "$folder" \
            --version "$2" "$1" >&2 || {
            echo "cargo-tool: $1 $2 could not be built (see above)" >&2
            exit 1
        }
        rm -rf "$folder/target"
    fi
fi
echo "$folder/bin"
