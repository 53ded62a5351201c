#!/usr/bin/env bash
# Prints the folder of the previous release: its `manager`, built from its commit, and its
# `install.yaml`. The build takes minutes; an existing folder is used as it is.
#
#     hack/previous.sh
#
# PREVIOUS_COMMIT   another commit
set -euo pipefail
cd "$(dirname "$0")/.."

# 0.1.0: the last commit before the changelog has a section `Unreleased`.
commit=${PREVIOUS_COMMIT:-f4c08778a72d5b0143967f25c431bb64810a6940}
dir=$PWD/${CARGO_TARGET_DIR:-target}/previous/$commit
# An absolute target folder stays the same.
[[ ${CARGO_TARGET_DIR:-target} != /* ]] || dir=$CARGO_TARGET_DIR/previous/$commit

if [ ! -x "$dir/manager" ]; then
    if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
        echo "previous: commit $commit is not in this clone: git fetch --unshallow" >&2
        exit 1
    fi
    mkdir -p "$dir/source"
    git archive "$commit" | tar -x -C "$dir/source"
    # Separate from our own target folder, because cargo takes its crates for ours.
    (cd "$dir/source" && CARGO_TARGET_DIR=$dir/build cargo build --locked --workspace --bin manager) >&2
    cp "$dir/source/dist/install.yaml" "$dir/install.yaml"
    # Last, because this file marks a complete folder.
    cp "$dir/build/debug/manager" "$dir/manager.new"
    mv "$dir/manager.new" "$dir/manager"
    rm -rf "$dir/build" "$dir/source"
fi
echo "$dir"
