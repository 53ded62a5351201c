#!/usr/bin/env bash
# Follows a Memcached from its creation to Ready (the real controllers against the model of the API server, under
# valgrind), and compares the files of crates/runtime that are executed with the reading order of
# docs/architecture.md. Exit code 1 if a file is missing there.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo 'valgrind is missing: apt-get install valgrind' >&2; exit 1; }
trap 'rm -f "$trace"' EXIT
trace=$(mktemp)
explorer=$(cargo test --locked --workspace --test explorer --no-run --message-format=json |
  sed -n 's/.*"executable":"\([^"]*explorer-[^"]*\)".*/\1/p')
PLAN='Memcached/create:1/p---/0/' valgrind --tool=callgrind --callgrind-out-file="$trace" \
  "$explorer" campaign::explore --exact --ignored >&2
# Not on the way: start, metrics, Events and what is read once.
around='/(lib|controllers|metrics|metrics/.*|event|rights|backoff|cache/stored_version|reconcile/first_revision)\.rs$'
executed=$(grep -oE 'crates/runtime/src/[a-z_/]+\.rs' "$trace" | sort -u | grep -vE "$around")
listed=$(sed -n '/^| an operator |/,/^$/p' docs/architecture.md)
missing=$(for file in $executed; do
  grep -qF "${file#crates/runtime/src/}" <<<"$listed" || echo "$file"
done)
[ -z "$missing" ] || { echo "not in the reading order: $missing" >&2; exit 1; }
echo "the reading order has all $(wc -l <<<"$executed") files"
