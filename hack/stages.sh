# Sourced by .ci/run and hack/nightly.sh: runs stages one after another, sums up their tests, and
# decides whether the run passed. The sourcing script sets these variables before:
#
# least           associative array: the least number of tests of each stage, by its name; 0 for
#                   a stage without tests. Its keys are the names of the stages.
# BUDGET_MINUTES  The time of all stages together. A stage that exceeds it is stopped and fails.
# ALLOW_SKIP      Stages that may be skipped for lack of time or permissions. Any other
#                   skipped stage fails.
# shellcheck shell=bash disable=SC2154

passed=0 failed=0 skipped=0 table=()
export CARGO_TERM_COLOR=never
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for name in $ALLOW_SKIP; do
    if [ -z "${least[$name]-}" ]; then
        echo "ALLOW_SKIP names '$name', which is not a stage: ${!least[*]}" >&2
        exit 64
    fi
done

seconds_left() { echo $((BUDGET_MINUTES * 60 - SECONDS)); }
say() { printf '\n==== %02d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# row NAME SECONDS TESTS VERDICT: one line of the table at the end.
row() { table+=("$(printf '%-12s %3d:%02d %6s  %s' "$1" $(($2 / 60)) $(($2 % 60)) "$3" "$4")"); }

# fail NAME WHY: reports a stage that cannot start.
fail() {
    say "$1: FAILED: $2"
    failed=$((failed + 1))
    row "$1" 0 - "FAILED: $2"
}

# install PACKAGE…: installs Debian packages.
install() {
    [ $# -gt 0 ] || return 0
    say "installing $*"
    local sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo timeout 120 apt-get update -qq && $sudo timeout 300 apt-get install -qqy --no-install-recommends "$@"
}

# Sums up lines such as "test result: ok. 3 passed; 0 failed; 1 ignored; …".
count_tests() {
    awk '/^test result: / {
             for (i = 2; i <= NF; i++) {
                 if ($i == "passed;") passed += $(i - 1)
                 if ($i == "failed;") failed += $(i - 1)
             }
         }
         END { print passed + 0, failed + 0 }' "$1"
}

# may_skip NAME: whether ALLOW_SKIP names the stage.
may_skip() { case " $ALLOW_SKIP " in *" $1 "*) true ;; *) false ;; esac; }

# skip NAME WHY
skip() {
    if may_skip "$1"; then
        say "$1: skipped, as ALLOW_SKIP allows: $2"
        skipped=$((skipped + 1))
        row "$1" 0 - skipped
    else
        fail "$1" "skipped, and ALLOW_SKIP does not name it: $2"
    fi
}

# has_time NAME MINUTES: whether a stage of that length fits. One that must not be skipped always
# starts: it is usually faster than on empty caches.
has_time() {
    local needed=1
    ! may_skip "$1" || needed=$(($2 * 60))
    [ "$(seconds_left)" -ge "$needed" ] && return
    skip "$1" "it may take $2 minutes and $(($(seconds_left) / 60)) are left"
    return 1
}

# stage NAME MINUTES COMMAND…: runs the command, which takes at most MINUTES on empty caches. A
# stage with tests counts as its tests, any other as one check.
stage() {
    local name=$1 minutes=$2 verdict=passed status began tests_passed tests_failed
    shift 2
    has_time "$name" "$minutes" || return
    say "$name: $*"
    began=$SECONDS
    timeout --kill-after=30 "$(seconds_left)" "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    read -r tests_passed tests_failed < <(count_tests "$log")
    passed=$((passed + tests_passed)) failed=$((failed + tests_failed))
    if [ "$status" != 0 ]; then
        # A stage that fails without a failed test did not compile, or ran out of time.
        [ "$tests_failed" != 0 ] || failed=$((failed + 1))
        verdict="FAILED with status $status"
    elif [ "$tests_passed" -lt "${least[$name]}" ]; then
        failed=$((failed + 1))
        verdict="FAILED: $tests_passed tests, at least ${least[$name]} are expected"
    elif [ "${least[$name]}" = 0 ]; then
        passed=$((passed + 1))
    fi
    say "$name: $verdict after $((SECONDS - began)) s"
    row "$name" $((SECONDS - began)) "$tests_passed" "$verdict"
}

# stage_e2e MINUTES: the stage that needs root and Debian packages, which it installs.
stage_e2e() {
    local missing
    if [ "$(id -u)" != 0 ] || ! unshare --net --mount --pid --fork true; then
        skip e2e "it needs root, and permission to create namespaces and mounts"
    elif has_time e2e "$1"; then
        read -ra missing < <(hack/e2e/missing.sh)
        if install "${missing[@]}"; then
            stage e2e "$1" make test-e2e
        else
            fail e2e "its packages cannot be installed"
        fi
    fi
}

# Prints the table of the stages and the summary; the status says whether the run passed.
finish() {
    say "done"
    printf '%-12s %6s %6s  %s\n' stage time tests verdict
    [ ${#table[@]} = 0 ] || printf '%s\n' "${table[@]}"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
