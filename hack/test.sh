#!/usr/bin/env bash
# cargo test with these arguments, several test binaries at the same time. Then the test of what the
# audit logs of all API servers of this run show: tests/cluster_audit.rs. That one wants
# `devcluster run` around it, as many of the tests do.
#
# TEST_JOBS  How many test binaries run at the same time (one more than there are processors, since
#            many of them wait most of their time).
# TEST_AGAIN Run up to this many failed tests of a binary (0) once more, after all others. Those
#            that pass then are listed as flaky, and fail nothing. The audit at the end judges what
#            the first run did, too.
#
# The output of each binary is printed whole when it ends, or as it comes if there is only one.
# Fails if no test ran: a name that is misspelt, or that has changed, matches nothing.
set -uo pipefail

# cargo runs this in place of each test binary, with the arguments, the environment and the
# folder that are meant for it: it writes them down and runs nothing.
if [ "${1:-}" = --record ]; then
    plan=$2
    shift 2
    case $1 in
    */deps/*) ;;
    *) exec "$@" ;; # an example in the documentation, which rustdoc removes afterwards
    esac
    name=$(basename "$1")
    for variable in "${!CARGO_TARGET_@}"; do
        # A test that runs cargo itself means what it says.
        case $variable in *_RUNNER) unset "$variable" ;; esac
    done
    {
        export -p
        # These wait most of their time, for a controller or a clock.
        case $name in cluster-* | faults-* | certificates-* | install-*)
            echo "export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((3 * $(nproc)))}"
            ;;
        esac
        printf 'cd %q && exec' "$PWD"
        printf ' %q' "$@"
        echo
    } >"$plan/$name"
    exit
fi

jobs=${TEST_JOBS:-$(($(nproc) + 1))} again=${TEST_AGAIN:-0}
if ! [[ $jobs =~ ^[1-9][0-9]{0,2}$ && $again =~ ^[0-9]{1,3}$ ]]; then
    echo "test: TEST_JOBS is a whole number from 1 on, TEST_AGAIN from 0 on, not '$jobs' and '$again'" >&2
    exit 64
fi
# Those that take longest begin first.
first=(versions cluster election quartet_operator hostile install rollout faults certificates)

plan=$(mktemp -d)
declare -A running=() # binary by process
alone=
# What this script runs ends with it, and what that has started: each is a process group.
set -m
stop() {
    local process
    for process in "${!running[@]}" $alone; do
        kill -- "-$process" 2>/dev/null
    done
    rm -rf "$plan"
}
trap stop EXIT
trap 'exit 143' TERM INT

# Runs a command so that a signal is heeded meanwhile.
run() {
    "$@" &
    alone=$!
    wait "$alone"
    local status=$?
    alone=
    return "$status"
}

host=$(rustc -vV | sed -n 's/^host: //p')
runner=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$host")_RUNNER
run env "$runner=$PWD/hack/test.sh --record $plan" cargo test --locked --workspace "$@" \
    2> >(grep --line-buffered -v '^ *Running ' >&2) || exit

shopt -s nullglob
planned=()
for pattern in "${first[@]/%/-*}" '*'; do
    # shellcheck disable=SC2231 # it is a pattern
    for file in "$plan"/$pattern; do
        case " ${planned[*]} " in *" ${file##*/} "*) ;; *) planned+=("${file##*/}") ;; esac
    done
done

failed=() flaky=() ran=0

# to_try_again BINARY: which of its tests failed, if they are to run once more. Fails if none is
# named (the binary died), or if there are too many to be an accident.
to_try_again() {
    local names
    # The last list of failures; what a test printed stands before it.
    mapfile -t names < <(awk '/^failures:$/ { split("", names); next }
                              /^    [^ ]+$/ { names[$1] }
                              /^test result: / { exit }
                              END { for (name in names) print name }' "$plan/$1.log" | sort)
    [ ${#names[@]} -gt 0 ] && [ ${#names[@]} -le "$again" ] && echo "${names[@]}"
}

# again BINARY: runs its failed tests once more, in a cluster of their own: what the first try
# left in the other one holds names and node ports. Fails if one fails again.
again() {
    local binary=$1 names cluster=()
    names=$(to_try_again "$binary") || return
    printf '\ntest: %s again: %s\n' "${binary%-*}" "$names"
    sed "\$s/\$/ --exact $names/" "$plan/$binary" >"$plan/$binary.again"
    if [ -n "${DEVCLUSTER_AUDIT_LOG:-}" ]; then
        sed -i -E '/^declare -x (KUBECONFIG|DEVCLUSTER_AUDIT_LOG)=/d' "$plan/$binary.again"
        cluster=("${CARGO_TARGET_DIR:-target}/debug/devcluster" run --definitions config/crd-original --)
    fi
    run "${cluster[@]}" bash "$plan/$binary.again" 2>&1 || return
    # shellcheck disable=SC2206 # names of tests have no spaces
    flaky+=($names)
}

# ended BINARY STATUS: what it wrote, unless that was seen, or no test was meant for it.
ended() {
    local binary=$1 output="$plan/$1.log" count
    count=$(awk '/^test result: / { sum += $4 + $6 } END { print sum + 0 }' "$output")
    ran=$((ran + count))
    if [ ${#planned[@]} -gt 1 ] && { [ "$count" != 0 ] || [ "$2" != 0 ]; }; then
        printf '\n     Running %s\n' "$(tail -n 1 "$plan/$binary" | sed 's/.* exec //')"
        if [ "$2" != 0 ] && to_try_again "$binary" >/dev/null; then
            # Counted and judged then.
            sed -E 's/^test result: FAILED\. (.*) passed; [0-9]* failed/test result: again. \1 passed; 0 failed/
                    s/^(test .* \.\.\. )FAILED$/\1again/' "$output"
        else
            cat "$output"
        fi
    fi
    [ "$2" = 0 ] || failed+=("$binary")
}

# end_one: waits for one of those that run.
end_one() {
    local process status
    wait -n -p process "${!running[@]}"
    status=$?
    ended "${running[$process]}" "$status"
    unset "running[$process]"
}

case " $* " in *" --no-fail-fast "*) fail_fast= ;; *) fail_fast=1 ;; esac
if [ ${#planned[@]} = 1 ]; then
    exec {output}> >(exec tee "$plan/${planned[0]}.log")
    tee=$!
    run bash "$plan/${planned[0]}" >&"$output" 2>&1
    status=$?
    exec {output}>&-
    # What the binary has left running, such as the containers of a node, holds its output open.
    for _ in {1..50}; do
        kill -0 "$tee" 2>/dev/null || break
        sleep 0.1
    done
    kill "$tee" 2>/dev/null
    ended "${planned[0]}" "$status"
else
    for binary in "${planned[@]}"; do
        while [ ${#running[@]} -ge "$jobs" ]; do end_one; done
        [ -z "$fail_fast" ] || [ ${#failed[@]} = 0 ] || break
        bash "$plan/$binary" >"$plan/$binary.log" 2>&1 &
        running[$!]=$binary
        echo "test: $SECONDS s, running ${running[*]%-*}, ${#planned[@]} test binaries in all"
    done
    while [ ${#running[@]} -gt 0 ]; do end_one; done
fi
if [ "$again" != 0 ]; then
    first_failed=("${failed[@]}") failed=()
    for binary in "${first_failed[@]}"; do again "$binary" || failed+=("$binary"); done
fi
if [ "$ran" = 0 ]; then
    echo "test: FAILED: there is no such test: cargo test $*" >&2
    exit 1
fi

# A test on its own that starts no cluster has no audit log.
if [ -n "${DEVCLUSTER_AUDIT_LOG:-}" ]; then
    # A selection of tests shows less than a whole run; a status that is not true is always wrong.
    case "$*" in
    '' | --no-fail-fast) only='' WHOLE_TEST_RUN=1 && export WHOLE_TEST_RUN ;;
    *) only=every_status ;;
    esac
    run cargo test --locked --workspace --test cluster_audit -- --nocapture $only || failed+=("cluster_audit-")
fi
if [ ${#failed[@]} -gt 0 ]; then
    sed -n 's/^test \(.*\) \.\.\. FAILED$/    \1/p' "$plan"/*.log >&2
    echo "test: FAILED after $SECONDS s: ${failed[*]%-*}; the output of each is above" >&2
    exit 1
fi
[ ${#flaky[@]} = 0 ] || printf 'test: FLAKY, failed and then passed: %s\n' "${flaky[@]}" >&2
echo "test: all $ran tests passed after $SECONDS s"
