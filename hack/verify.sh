#!/usr/bin/env bash
# Fails if what is committed does not agree with itself: generated files that are stale,
# links in the documentation that lead nowhere, paths that only one machine has. The
# working tree is left as it was found.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
fail() {
    echo "verify: $*" >&2
    failed=1
}

cargo fmt --all -- --check -l >&2 || fail "the code is not formatted: run 'make fmt'"

# The generator writes config/ and docs/. It runs here, on a tree that is put back
# afterwards, so that what is checked is what `make manifests` does.
generated=(config docs)
before=$(mktemp -d)
stale=()
put_back() {
    local folder
    for folder in "${stale[@]}"; do
        rm -rf "$folder"
        cp -a "$before/$folder" "$folder"
    done
    rm -rf "$before"
}
trap put_back EXIT
mkdir -p "${generated[@]}"
cp -a "${generated[@]}" "$before"

cargo build --quiet --locked --workspace --bin generate
"${CARGO_TARGET_DIR:-target}/debug/generate" manifests >"$before/log" || {
    cat "$before/log" >&2
    fail "the generator failed"
}
for folder in "${generated[@]}"; do
    if ! diff --recursive --unified --new-file "$before/$folder" "$folder" >&2; then
        stale+=("$folder")
        fail "$folder/ is stale (- as committed, + as generated): run 'make manifests'"
    fi
done

# Relative links in Markdown: ](path) or ](path#heading).
while IFS=: read -r file link; do
    target=$(dirname "$file")/${link%%#*}
    [ -e "$target" ] || fail "$file links to $link, which is not there"
done < <(git ls-files '*.md' | while read -r file; do
    grep -oE '\]\([^)]+\)' "$file" | sed -E 's/^\]\((.*)\)$/\1/' |
        grep -vE '^(https?:|mailto:|#)' | sed "s|^|$file:|" || true
done)

# Brackets keep these patterns from matching themselves.
if git grep -nIE '\.\./share[d]|(^|[^A-Za-z0-9_.~-])/(wor[k]|roo[t])/' -- . ':!LICENSE' >&2; then
    fail "the lines above refer to a folder that users do not have"
fi

if [ "$failed" = 0 ]; then
    echo "verify: generated files, links and paths are in order"
fi
exit "$failed"
