#!/bin/sh
# Checks the dependencies with cargo-deny: licences, sources and banned crates, which needs no
# network; then known vulnerabilities, if the advisory database is reachable. Fails on any finding,
# and prints one line if it could not check.
set -eu
cd "$(dirname "$0")/.."

PATH="$(hack/cargo-tool.sh cargo-deny 0.20.2):$PATH"
# The unpublished fuzz package has the same versions: `make verify` checks that.
cargo deny --locked --all-features check --hide-inclusion-graph bans licenses sources

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Two minutes, because a network that drops packets would block for longer.
if timeout 120 cargo deny --locked fetch db >"$log" 2>&1; then
    cargo deny --locked check --disable-fetch --hide-inclusion-graph advisories
else
    echo "audit: known vulnerabilities were not checked, the advisory database is unreachable: $(grep -m 1 -oE '(failed|unable|error).*' "$log" || tail -n 1 "$log")"
fi
