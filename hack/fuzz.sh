#!/usr/bin/env bash
# Builds the fuzz targets and runs each of them for a fixed number of executions, as many targets
# concurrently as there are processors:
#
#     hack/fuzz.sh [TARGET...]
#
# FUZZ_RUNS       executions of each target (default below), -1 for no end; from 100 000 on, the
#                 targets are built with optimization, which takes some minutes
# FUZZ_TARGETS    the targets, where no argument names any (default: all)
# FUZZ_SEED       seed of libFuzzer's random numbers; another one in each run, and printed, unless
#                 it is given here
# FUZZ_ARGS       more arguments for libFuzzer, e.g. FUZZ_ARGS=-max_total_time=600
#
# Needs no nightly toolchain: coverage is a stable part of LLVM, and the unstable sanitizers would
# find little in code without `unsafe`. New inputs of libFuzzer are kept in a copy of the corpus
# below the target folder. A failing input becomes a file of the committed corpus, so that every
# later run starts with it; nothing else in the working tree changes.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${FUZZ_RUNS:-2000}
seed=${FUZZ_SEED:-$((RANDOM * 32768 + RANDOM + 1))}
target_dir=${CARGO_TARGET_DIR:-target}/fuzz
# Inputs are small, because a few bytes can generate large values (see fuzz/src/json.rs). The
# timeout is for one input: the slowest takes some milliseconds. Inputs that take long are tried less
# often: conversion_round_trip then makes 8 times as many executions in the same time, and reaches
# 4 % more code.
limits=(-max_len=4096 -timeout=20 -rss_limit_mb=2048 -entropic_scale_per_exec_time=1)

known=()
for file in fuzz/fuzz_targets/*.rs; do
    known+=("$(basename "$file" .rs)")
done
if [ $# -gt 0 ]; then
    targets=("$@")
else
    read -ra targets <<<"${FUZZ_TARGETS:-${known[*]}}"
fi
for target in "${targets[@]}"; do
    if [ ! -f "fuzz/fuzz_targets/$target.rs" ]; then
        echo "fuzz: there is no target $target; there are: ${known[*]}" >&2
        exit 64
    fi
done

# In the target folder of the tests, so that their dependencies are reused (fuzz/rustc.sh): all
# except ring and its dependents, because libfuzzer-sys needs one more feature of ring's build
# dependency.
build() {
    local profile=dev folder=debug
    if [ "$runs" -lt 0 ] || [ "$runs" -ge 100000 ]; then
        profile=many folder=many
    fi
    RUSTC_WRAPPER=$PWD/fuzz/rustc.sh cargo build --locked --manifest-path fuzz/Cargo.toml \
        --profile "$profile" --target-dir "${CARGO_TARGET_DIR:-target}" "${targets[@]/#/--bin=}"
    programs=${CARGO_TARGET_DIR:-target}/$folder
}

# Prints the number after "cov:" in the last line of a log with this word.
coverage() {
    sed -n "s/^#[0-9]*[[:space:]]*$1[[:space:]]*cov: \([0-9]*\).*/\1/p" "$2" | tail -n 1
}

# fuzz TARGET: runs a target and prints its result, or how to reproduce a finding.
fuzz() {
    local target=$1 corpus=$target_dir/corpus/$1 artifacts=$target_dir/artifacts/$1
    local log=$target_dir/$1.log dictionary=fuzz/dictionaries/$1.dict began=$SECONDS
    local options=("${limits[@]}" "-seed=$seed" "-runs=$runs" "-artifact_prefix=$artifacts/"
        -print_final_stats=1)
    [ ! -f "$dictionary" ] || options+=("-dict=$dictionary")
    # shellcheck disable=SC2206 # several arguments in one variable
    options+=(${FUZZ_ARGS:-})
    rm -rf "$corpus"
    mkdir -p "$corpus" "$artifacts"
    echo "fuzz: $target: $runs executions, FUZZ_SEED=$seed"
    if ! "$programs/$target" "${options[@]}" "$corpus" "fuzz/corpus/$target" 2>&1 |
        tee "$log" | awk -v t="$target" '/^#[0-9]+[[:space:]]+pulse/ { print "fuzz: " t ": " $0; fflush() }'; then
        report "$target" "$log"
        return 1
    fi
    local before after executions
    before=$(coverage INITED "$log") after=$(coverage DONE "$log")
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ -z "$executions" ] || [ "$executions" -lt "$runs" ] && [ -z "${FUZZ_ARGS:-}" ]; then
        echo "fuzz: $target: only ${executions:-0} of $runs executions: see $log" >&2
        return 1
    fi
    printf 'fuzz: %s: ok, %d executions in %d s, coverage %d, %d of it new, %d new inputs in %s\n' \
        "$target" "$executions" $((SECONDS - began)) "$after" $((after - before)) \
        "$(find "$corpus" -type f | wc -l)" "$corpus"
}

report() {
    local target=$1 log=$2 artifact found=
    artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    if [ -n "$artifact" ]; then
        found=fuzz/corpus/$target/found-$(basename "$artifact" | sed 's/.*-\(.\{12\}\).*/\1/')
        cp "$artifact" "$found"
    fi
    {
        grep -vE '^(#|INFO|NEW_FUNC|[[:space:]]+NEW_)' "$log" | tail -n 40
        echo "fuzz: $target: FAILED; the whole output is in $log"
        if [ -n "$artifact" ]; then
            echo "fuzz: the input is now $found; to run it again:"
            echo "    $programs/$target $found"
            echo "the whole run: make fuzz FUZZ_TARGETS=$target FUZZ_RUNS=$runs FUZZ_SEED=$seed"
            echo "to look for a smaller one:"
            echo "    $programs/$target -minimize_crash=1 -runs=100000 -artifact_prefix=$(dirname "$artifact")/ $artifact"
        fi
    } >&2
}

build
passed=0 failed=0
count() {
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}
# Background processes end with this script.
trap 'trap - TERM; kill 0' INT TERM
running=0
for target in "${targets[@]}"; do
    if [ "$running" = "$(nproc)" ]; then
        count wait -n
        running=$((running - 1))
    fi
    fuzz "$target" &
    running=$((running + 1))
done
for ((; running > 0; running--)); do
    count wait -n
done
word=ok
[ "$failed" = 0 ] || word=FAILED
# In cargo's format, which .ci/run sums up.
echo "test result: $word. $passed passed; $failed failed; 0 ignored"
[ "$failed" = 0 ]
