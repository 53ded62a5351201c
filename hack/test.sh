#!/usr/bin/env bash
# cargo test with these arguments, and then the test of what the audit logs of all API servers
# of this run show: tests/cluster_audit.rs. Wants `devcluster run` around it.
set -uo pipefail

# Ends with the command that it runs: a bash that is told to end would leave it running.
child=
trap '[ -z "$child" ] || kill "$child" 2>/dev/null; exit 143' TERM INT
run() {
    "$@" &
    child=$!
    wait "$child"
}

run cargo test --locked --workspace "$@"
status=$?
# A selection of tests shows less than a whole run; a status that is not true is always wrong.
case "$*" in
'' | --no-fail-fast) only='' WHOLE_TEST_RUN=1 && export WHOLE_TEST_RUN ;;
*) only=every_status ;;
esac
run cargo test --locked --workspace --test cluster_audit -- --nocapture $only || status=$?
exit "$status"
