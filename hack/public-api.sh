#!/bin/sh
# Writes the public API of each library to FOLDER/crates/NAME/public-api.txt: hack/public-api.sh FOLDER
#
# tools/api-list reads the JSON of rustdoc, whose option is unstable. RUSTC_BOOTSTRAP permits it to the pinned
# rustdoc. It is not set for cargo, which would compile everything again: this script also stands for rustdoc.
set -eu

if [ -n "${AS_RUSTDOC:-}" ]; then
    case $CARGO_PKG_NAME in
    quartet-operator) exit ;;
    quartet-*) RUSTC_BOOTSTRAP=1 exec rustdoc "$@" ;;
    *) exit ;;
    esac
fi
folder=$1
cd "$(dirname "$0")/.."
programs=${CARGO_TARGET_DIR:-target}
# --workspace: with the features of all members, as in `make lint`.
AS_RUSTDOC=1 RUSTDOC=$PWD/hack/public-api.sh RUSTDOCFLAGS="-Zunstable-options --output-format=json" \
    cargo doc --quiet --locked --workspace --no-deps --lib
cargo build --quiet --locked --manifest-path tools/api-list/Cargo.toml --target-dir "$programs"
for crate in crates/*; do
    mkdir -p "$folder/$crate"
    "$programs/debug/api-list" "$programs/doc/quartet_${crate#crates/}.json" >"$folder/$crate/public-api.txt"
done
