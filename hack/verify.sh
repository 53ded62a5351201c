#!/usr/bin/env bash
# Fails if committed files are inconsistent: unformatted code, stale generated files, paths that
# only one machine has, patches that do not apply. Changes nothing in the working tree.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
fail() {
    echo "verify: $*" >&2
    failed=1
}

for manifest in Cargo.toml {fuzz,tools/api-list,tools/bench/peers/kube-rs}/Cargo.toml; do
    cargo fmt --all --manifest-path "$manifest" -- --check -l >&2 ||
        fail "the code is not formatted: run 'make fmt'"
done
# The files of kinds: a macro declares them as modules, where cargo fmt does not look.
rustfmt --edition 2024 --check -l src/kinds/*.rs >&2 ||
    fail "the code is not formatted: run 'make fmt'"

# Fuzzed is what is shipped: the fuzz package has a lock file of its own, with no other version
# of any crate that both name.
crates() { awk '$1 == "name" { name = $3 } name && $1 == "version" { print name, $3 }' "$1" | sort; }
names() { crates "$1" | cut -d ' ' -f 1 | sort -u; }
others=$(comm -13 <(crates Cargo.lock) <(crates fuzz/Cargo.lock) |
    join - <(names Cargo.lock) | tr '\n' ' ')
if [ -n "$others" ] ||
    ! cargo metadata --locked --manifest-path fuzz/Cargo.toml --format-version 1 >/dev/null; then
    fail "fuzz/Cargo.lock is stale: run 'cp Cargo.lock fuzz/' and" \
        "'cargo fetch --manifest-path fuzz/Cargo.toml', and commit what changes ($others)"
fi

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
cargo build --quiet --locked --workspace --bin generate --bin bench
programs=${CARGO_TARGET_DIR:-target}/debug

# compare FOLDER COMMAND: every file of the folder is committed as it is there; COMMAND writes it.
compare() {
    while read -r file; do
        diff --unified --new-file --label "committed $file" --label "generated $file" \
            "$file" "$1/$file" >&2 ||
            fail "$file is stale: run '$2' and commit what changes"
    done < <(cd "$1" && find . -type f -printf '%P\n' | sort)
}
"$programs/generate" manifests --output "$fresh/manifests"
compare "$fresh/manifests" 'make manifests'
"$programs/bench" plot --figures docs/figures --output "$fresh/plots/docs/figures"
compare "$fresh/plots" 'make plots'
hack/public-api.sh "$fresh/api"
compare "$fresh/api" 'make public-api'

for patch in tests/mutants/*.patch; do
    git apply --check "$patch" || fail "$patch does not apply: adapt it to the code, see docs/testing.md"
done

# Brackets keep these patterns from matching themselves.
if git grep -nIE '\.\./share[d]|(^|[^A-Za-z0-9_.~-])/(wor[k]|roo[t])/' -- . ':!LICENSE' >&2; then
    fail "the lines above refer to a folder that users do not have"
fi

if [ "$failed" = 0 ]; then
    echo "verify: format, generated files, patches and paths are in order"
fi
exit "$failed"
