#!/bin/sh
# The RUSTC_WRAPPER of hack/fuzz.sh: compiles the fuzzed crates with coverage, which `cargo fuzz`
# does for all crates, and all others without. So the dependencies are those that the tests have
# built. Each crate listed here must have its own profile in Cargo.toml, so that cargo builds it
# separately from the one without coverage.
case $CARGO_PKG_NAME in
quartet-certificates | quartet-http | quartet-lease | quartet-operator | quartet-operator-fuzz | quartet-runtime | quartet-workload | der)
    exec "$@" -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table
    ;;
*) exec "$@" ;;
esac
