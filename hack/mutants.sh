#!/usr/bin/env bash
# Mutation testing: changes the code in one place at a time and runs the unit tests and the
# explorer, which should fail. Prints the mutants that survived, and fails if under 95 % were
# caught.
#
# N     number of mutants, approximately; 0 for all of them (200)
# SEED  selects the mutants: each seed takes another part, spread evenly over the files (1)
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

# Dependencies are built once; the changed copy of the sources is elsewhere.
status=0
CARGO_TARGET_DIR="$folder/mutants" PLANS=${PLANS:-50} cargo mutants --shard "$((seed % shards))/$shards" \
    --sharding round-robin --output "$folder" --no-shuffle --colors never --jobs 1 || status=$?
# 2: some survived, 3: some timed out. Any other status is an error.
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
