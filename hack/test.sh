#!/usr/bin/env bash
# cargo test with these arguments, and then the test of what the audit logs of all API servers
# of this run show: tests/cluster_audit.rs. Wants `devcluster run` around it.
set -uo pipefail

cargo test --locked --workspace "$@"
status=$?
# A selection of tests shows less than a whole run; a status that is not true is always wrong.
case "$*" in
'' | --no-fail-fast) only='' WHOLE_TEST_RUN=1 && export WHOLE_TEST_RUN ;;
*) only=every_status ;;
esac
cargo test --locked --workspace --test cluster_audit -- --nocapture $only || status=$?
exit "$status"
