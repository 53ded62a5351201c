#!/bin/sh
# Builds a program of a crate once per machine, separate from the user's own programs, and prints
# its folder: hack/cargo-tool.sh cargo-deny 0.18.5. Further arguments are passed to `cargo install`,
# e.g. --no-default-features.
set -eu

[ $# -ge 2 ] || {
    echo "usage: $0 CRATE VERSION [FLAG...]" >&2
    exit 64
}
crate=$1 version=$2
shift 2
folder="${XDG_CACHE_HOME:-$HOME/.cache}/quartet-operator/$crate/$version"
if [ ! -x "$folder/bin/$crate" ]; then
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    if [ ! -x "$folder/bin/$crate" ]; then
        echo "building $crate $version from source, once, a few minutes on two cores…" >&2
        # A target folder of its own, because the program is not part of the workspace and its
        # flags.
        CARGO_TARGET_DIR="$folder/target" cargo install --quiet --locked --root "$folder" \
            --version "$version" "$@" "$crate" >&2 || {
            echo "cargo-tool: $crate $version could not be built (see above)" >&2
            exit 1
        }
        rm -rf "$folder/target"
    fi
fi
echo "$folder/bin"
