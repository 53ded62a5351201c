#!/bin/sh
# Checks the dependencies, with cargo-deny: their licences, where they come from and what is
# banned, which needs no network; then known vulnerabilities, where the advisory database can
# be had. Fails on any finding, and says in one line if it could not look.
set -eu
cd "$(dirname "$0")/.."

PATH="$(hack/cargo-tool.sh cargo-deny 0.20.2):$PATH"
for manifest in Cargo.toml fuzz/Cargo.toml; do
    echo "audit: licences, sources and bans of $manifest"
    cargo deny --locked --manifest-path "$manifest" --all-features check --config deny.toml \
        --hide-inclusion-graph bans licenses sources
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Two minutes: a network that drops what it does not allow would have it wait for longer.
if timeout 120 cargo deny --locked fetch db >"$log" 2>&1; then
    cargo deny --locked check --disable-fetch --hide-inclusion-graph advisories
else
    echo "audit: known vulnerabilities were not looked up, the advisory database cannot be reached: $(grep -m 1 -oE '(failed|unable|error).*' "$log" || tail -n 1 "$log")"
fi
