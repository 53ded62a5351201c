# What every recipe may use. The runner, tests/cluster/recipes.rs, sets:
#
# NAMESPACE  where the manager watches
# METRICS    the URL of its metrics
# SILENT     an address that accepts connections and never answers
set -eu

kubectl() {
    command kubectl --namespace "$NAMESPACE" "$@"
}

# apply KIND NAME SPEC: applies a resource in its new version. SPEC is YAML in one line.
apply() {
    local version
    case $1 in
    Memcached) version=cache.example.com/v1 ;;
    Nginx) version=proxy.example.com/v1 ;;
    ElasticWeb) version=elasticweb.example.com/v2 ;;
    HelloWorld) version=test.jiaozi.com/v1 ;;
    esac
    kubectl apply -f - <<<"{apiVersion: $version, kind: $1, metadata: {name: $2}, spec: $3}"
}

# eventually COMMAND: repeats it until it succeeds, for at most LIMIT seconds (60).
eventually() {
    local end=$((SECONDS + ${LIMIT:-60}))
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "not within ${LIMIT:-60} s: $*; but: ${found-}"
        sleep 0.5
    done
}

fail() {
    echo "$*" >&2
    exit 1
}

# field OBJECT PATH: prints it.
field() {
    kubectl get "$1" -o "jsonpath={$2}"
}

# is OBJECT PATH VALUE
is() {
    found=$(field "$1" "$2" 2>/dev/null) && [ "$found" = "$3" ]
}

# condition OBJECT TYPE FIELD: prints it.
condition() {
    field "$1" ".status.conditions[?(@.type==\"$2\")].$3"
}

# degraded OBJECT REASON: waits until it is.
degraded() {
    eventually is "$1" '.status.conditions[?(@.type=="Degraded")].reason' "$2"
}

# ready OBJECT…: waits until all are.
ready() {
    kubectl wait --for=condition=Ready --timeout=90s "$@" || fail "$(kubectl get "$@" -o yaml)"
}
