#!/usr/bin/env bash
# Mutation testing: changes the code in one place at a time and runs the unit tests and the
# explorer, which should fail. Ends with what survived, and fails if under 95 % were caught.
#
# N     how many mutants, about; 0 for all of them (200)
# SEED  which ones: each seed takes another part of all mutants, spread evenly over the files (1)
#
# Settings are in .cargo/mutants.toml; the result of each mutant is below mutants.out in the target
# folder.
set -euo pipefail
cd "$(dirname "$0")/.."

number=${N:-200} seed=${SEED:-1}
for value in "$number" "$seed"; do
    [[ $value =~ ^[0-9]{1,9}$ ]] || {
        echo "mutants: N and SEED are whole numbers, not '$value'" >&2
        exit 64
    }
done
nextest=$(hack/cargo-tool.sh cargo-nextest 0.9.151 --no-default-features --features default-no-update)
PATH="$(hack/cargo-tool.sh cargo-mutants 27.1.0):$nextest:$PATH"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")
total=$(cargo mutants --list | wc -l)
shards=1
[ "$number" = 0 ] || shards=$(((total + number - 1) / number))
echo "mutants: $total in all, part $((seed % shards)) of $shards (SEED=$seed)"

# Dependencies are built once; the copy of the sources that is changed is elsewhere.
status=0
CARGO_TARGET_DIR="$folder/mutants" PLANS=${PLANS:-50} cargo mutants --shard "$((seed % shards))/$shards" \
    --sharding round-robin --output "$folder" --no-shuffle --colors never --jobs 1 || status=$?
# 2: some survived, 3: some ran for ever. Anything else is an error of its own.
case $status in 0 | 2 | 3) ;; *) exit "$status" ;; esac

count() { wc -l <"$folder/mutants.out/$1.txt"; }
caught=$(($(count caught) + $(count timeout))) missed=$(count missed)
[ $((caught + missed)) -gt 0 ] || {
    echo "mutants: none could be built" >&2
    exit 1
}
rate=$((caught * 1000 / (caught + missed)))
echo "mutants: $caught of $((caught + missed)) viable ones caught ($((rate / 10)).$((rate % 10)) %)"
[ "$rate" -ge 950 ]
