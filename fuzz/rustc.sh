#!/bin/sh
# The RUSTC_WRAPPER of hack/fuzz.sh: compiles what is fuzzed with coverage, as `cargo fuzz` does
# for everything, and all else as ever. So the dependencies are those that the tests have built.
# A crate that is listed here must have a profile of its own in Cargo.toml, by which cargo tells
# it from the one without coverage.
case $CARGO_PKG_NAME in
quartet-operator | quartet-operator-fuzz | yasna)
    exec "$@" --cfg fuzzing -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$@" ;;
esac
