#!/usr/bin/env bash
# Runs cargo test with these arguments, several test binaries concurrently, and then
# tests/cluster_audit.rs on the audit logs of all API servers of this run. That test needs
# `devcluster run` around it, as many of the tests do.
#
# TEST_JOBS  Number of concurrent test binaries (two more than there are processors, because
#            many of them wait most of their time).
# TEST_AGAIN Repeat up to this many failed tests of a binary (0) once, after all others. Those that
#            pass then are listed as flaky and do not fail the run. The audit at the end also checks
#            the first attempt.
#
# The output of each binary is printed as a whole when it ends, or at once if there is only one.
# Fails if no test ran, because a misspelled or renamed test matches nothing.
set -uo pipefail

# For kubectl, Helm and others that live for seconds with a small heap: memory is cheaper than the
# default of a collection whenever it has doubled.
export GOGC=${GOGC:-400} GOMEMLIMIT=${GOMEMLIMIT:-1GiB}

# cargo runs this instead of each test binary, with its arguments, environment and folder: it
# records them and runs nothing.
if [ "${1:-}" = --record ]; then
    plan=$2
    shift 2
    case $1 in
    */deps/*) ;;
    *) exec "$@" ;; # an example in the documentation, which rustdoc removes afterwards
    esac
    name=$(basename "$1")
    for variable in "${!CARGO_TARGET_@}"; do
        # A test that runs cargo itself must not use this runner.
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

jobs=${TEST_JOBS:-$(($(nproc) + 2))} again=${TEST_AGAIN:-0}
if ! [[ $jobs =~ ^[1-9][0-9]{0,2}$ && $again =~ ^[0-9]{1,3}$ ]]; then
    echo "test: TEST_JOBS is a whole number from 1 on, TEST_AGAIN from 0 on, not '$jobs' and '$again'" >&2
    exit 64
fi
# Those that take longest and those that wait start first; those that compute fill the rest.
first=(versions cluster faults election install rollout hostile certificates
    explorer quartet_operator quartet_runtime components command bundle)

plan=$(mktemp -d)
declare -A running=() # binary by process
alone=
# Processes of this script, and their children, end with it: each is a process group.
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

# Runs a command so that signals are handled meanwhile.
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

# to_try_again BINARY: prints its failed tests if they are to be repeated. Fails if none is named
# (the binary crashed), or if there are too many.
to_try_again() {
    local names
    # The last list of failures; the tests' output comes before it.
    mapfile -t names < <(awk '/^failures:$/ { split("", names); next }
                              /^    [^ ]+$/ { names[$1] }
                              /^test result: / { exit }
                              END { for (name in names) print name }' "$plan/$1.log" | sort)
    [ ${#names[@]} -gt 0 ] && [ ${#names[@]} -le "$again" ] && echo "${names[@]}"
}

# again BINARY: repeats its failed tests in a new cluster, because names and node ports of the first
# attempt are still used in the other one. Fails if one fails again.
again() {
    local binary=$1 names cluster=()
    names=$(to_try_again "$binary") || return
    printf '\ntest: %s again: %s\n' "${binary%-*}" "$names"
    sed "\$s/\$/ --exact $names/" "$plan/$binary" >"$plan/$binary.again"
    if [ -n "${DEVCLUSTER_AUDIT_LOG:-}" ]; then
        sed -i -E '/^declare -x (KUBECONFIG|KUBECACHEDIR|DEVCLUSTER_AUDIT_LOG)=/d' "$plan/$binary.again"
        cluster=("${CARGO_TARGET_DIR:-target}/debug/devcluster" run --definitions config/crd-original --)
    fi
    run "${cluster[@]}" bash "$plan/$binary.again" 2>&1 || return
    # shellcheck disable=SC2206 # names of tests have no spaces
    flaky+=($names)
}

# ended BINARY STATUS: prints its output, unless it was printed already or no test matched.
ended() {
    local binary=$1 output="$plan/$1.log" count
    count=$(awk '/^test result: / { sum += $4 + $6 } END { print sum + 0 }' "$output")
    ran=$((ran + count))
    if [ ${#planned[@]} -gt 1 ] && { [ "$count" != 0 ] || [ "$2" != 0 ]; }; then
        printf '\n     Running %s\n' "$(tail -n 1 "$plan/$binary" | sed 's/.* exec //')"
        if [ "$2" != 0 ] && to_try_again "$binary" >/dev/null; then
            # These are counted after the repetition.
            sed -E 's/^test result: FAILED\. (.*) passed; [0-9]* failed/test result: again. \1 passed; 0 failed/
                    s/^(test .* \.\.\. )FAILED$/\1again/' "$output"
        else
            cat "$output"
        fi
    fi
    [ "$2" = 0 ] || failed+=("$binary")
}

# end_one: waits until one running binary ends.
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
    # Processes that the binary left running, such as the containers of a node, hold its output
    # open.
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
    echo "test: FAILED: no test matches: cargo test $*" >&2
    exit 1
fi

# A single test without a cluster has no audit log.
if [ -n "${DEVCLUSTER_AUDIT_LOG:-}" ]; then
    # A selection of tests covers less than a whole run; an incorrect status is always an error.
    case "$*" in
    '' | --no-fail-fast) only='' WHOLE_TEST_RUN=1 && export WHOLE_TEST_RUN ;;
    *) only=every_ready_status ;;
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
