#!/usr/bin/env bash
# Validates a bundle and a catalog with the validators of their consumers, and fails on any warning:
# hack/bundle-validate.sh [BUNDLE_DIR [CATALOG_DIR]]; with an empty CATALOG_DIR only the bundle.
#
# operator-sdk exits with 0 if it only warns, so its output is parsed.
set -euo pipefail
cd "$(dirname "$0")/.."
bundle=${1:-bundle}
catalog=${2-catalog}

operator_sdk=$(hack/build-go.sh hack/operator-sdk)/operator-sdk

failed=0
fail() {
    echo "bundle-validate: $*" >&2
    failed=1
}

# Prints the lines with warnings and errors of one run.
complaints() {
    local said
    said=$(timeout 120 "$operator_sdk" bundle validate "$bundle" --image-builder none "$@" 2>&1) ||
        said="$said"$'\n''level=error msg="operator-sdk failed"'
    echo "$said" >&2
    grep -iE 'level=(warn|error|fatal)|^ *(warn|error)' <<<"$said" || true
}

for select in "" suite=operatorframework name=operatorhubv2; do
    echo "\$ operator-sdk bundle validate $bundle${select:+ --select-optional $select}" >&2
    said=$(complaints ${select:+--select-optional "$select"})
    [ -z "$said" ] || fail "a validator warns, see above"
done

# Deprecated, but run by the community catalog: its only warning must be its own deprecation.
echo "\$ operator-sdk bundle validate $bundle --select-optional name=operatorhub" >&2
said=$(complaints --select-optional name=operatorhub)
[ "$(grep -c . <<<"$said")" = 1 ] && grep -q 'The \\"operatorhub\\" validator is deprecated' <<<"$said" ||
    fail "more than the validator's own deprecation, see above"

if [ -n "$catalog" ]; then
    opm=$(hack/build-go.sh hack/opm)/opm
    echo "\$ opm validate $catalog" >&2
    timeout 120 "$opm" validate "$catalog" >&2 || fail "opm rejects the catalog"
    rendered=$(timeout 120 "$opm" render "$catalog" --output yaml | grep -c '^schema: ') || rendered=0
    echo "\$ opm render $catalog: $rendered blobs" >&2
    [ "$rendered" -gt 2 ] || fail "opm renders nothing"
fi

if [ "$failed" = 0 ]; then
    echo "bundle-validate: no warning and no error"
fi
exit "$failed"
