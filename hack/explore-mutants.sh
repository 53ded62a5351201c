#!/usr/bin/env bash
# Checks the oracles of the explorer: builds the product with each bug of tests/mutants, in a copy of
# this checkout, and runs the plans of the bug (docs/testing.md), in which the named oracle must report it.
#
#     hack/explore-mutants.sh [MUTANT…]    these only, e.g. 'blind status'
#
# The output of each test is below explore-mutants in the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/explore-mutants
copy=$folder/checkout
mutants=()
for mutant in "$@"; do
    mutant=${mutant,,}
    mutants+=("${mutant// /-}")
done
if [ $# = 0 ]; then
    for patch in tests/mutants/*.patch; do
        mutants+=("$(basename "$patch" .patch)")
    done
fi

rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard |
    while IFS= read -rd '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | xargs -0 cp --no-dereference --parents --target-directory="$copy"

# apply MUTANT [FLAG]: the copy is not to be taken for a part of this repository.
apply() { GIT_CEILING_DIRECTORIES=$folder git -C "$copy" apply "${@:2}" "$PWD/tests/mutants/$1.patch"; }

# run MUTANT: whether the oracles report it. All mutants share a target folder, so that only the product is
# built again.
run() {
    local test=campaign::mutants::each_oracle_reports_its_mutants_and_not_the_product
    (cd "$copy" && MUTANT=$1 CARGO_TARGET_DIR=$folder \
        cargo test --locked --workspace --test explorer "$test" -- --exact) >"$folder/$1.log" 2>&1 &&
        grep -q '^test result: ok. 1 passed' "$folder/$1.log"
}

reported=0 missed=0
for mutant in "${mutants[@]}"; do
    apply "$mutant"
    if run "$mutant"; then
        echo "explore-mutants: $mutant: reported"
        reported=$((reported + 1))
    else
        tail -n 40 "$folder/$mutant.log" >&2
        echo "explore-mutants: $mutant: NOT REPORTED as expected: see $folder/$mutant.log" >&2
        missed=$((missed + 1))
    fi
    apply "$mutant" --reverse
done
echo "explore-mutants: $reported of $((reported + missed)) mutants reported"
[ "$missed" = 0 ]
