#!/bin/sh
# Checks the dependencies, with cargo-deny: their licences, where they come from and what is
# banned, which needs no network; then known vulnerabilities, where the advisory database can
# be had. Fails on any finding, and says in one line if it could not look.
set -eu
cd "$(dirname "$0")/.."

PATH="$(hack/cargo-tool.sh cargo-deny 0.20.2):$PATH"
# The fuzz package, which nobody ships, has the same versions: `make verify` sees to that.
cargo deny --locked --all-features check --hide-inclusion-graph bans licenses sources

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Two minutes: a network that drops what it does not allow would have it wait for longer.
if timeout 120 cargo deny --locked fetch db >"$log" 2>&1; then
    cargo deny --locked check --disable-fetch --hide-inclusion-graph advisories
else
    echo "audit: known vulnerabilities were not looked up, the advisory database cannot be reached: $(grep -m 1 -oE '(failed|unable|error).*' "$log" || tail -n 1 "$log")"
fi
