# What both programs may use, beside the functions of the recipes. The runner sets:
#
# NAMESPACE, OTHER  the manager watches both
# PORTS             three free ports
# HOLD              how many seconds nothing may be written (300)
. tests/cluster/recipes/functions.bash

kinds=memcacheds,nginxes,elasticwebs,helloworlds
work=$(mktemp -d)

# Runs `clean` of the program's script, while what that started still runs.
finish() {
    local status=$?
    trap - EXIT
    [ "$status" = 0 ] || tail -n 30 "$work"/*.log >&2
    clean || status=1
    # shellcheck disable=SC2046 # a list
    kill $(jobs -p) 2>/dev/null || true
    wait
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT

# start NAME COMMAND…: runs it until the end of the script.
start() {
    local name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 &
}

# folder MODULE NAME: prints the folder of a module that the program NAME in hack is built from.
folder() {
    (cd "hack/$2" && go list -m -f '{{.Dir}}' "$1")
}

# versions: prints what every write to a resource or child changes.
versions() {
    kubectl get "$kinds,deployments,replicasets,services" \
        -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{"\n"}{end}'
}

unchanged_for() {
    found=$(versions)
    sleep "$1"
    diff <(echo "$found") <(versions)
}

# quiet SECONDS: once everything has settled, nothing is written for so long.
quiet() {
    eventually unchanged_for 10
    unchanged_for "$1" || fail "written within $1 s, see above"
}
