#!/usr/bin/env bash
# Shows the four operators at work, from an empty cluster to garbage collection, as a transcript of
# commands that can be repeated by hand: hack/demo.sh DEVCLUSTER MANAGER. It succeeds only if every
# shown result occurs. With KEEP, cluster and manager stay until `devcluster down`.
set -euo pipefail
cd "$(dirname "$0")/.."

devcluster=$1
manager=$2
memcached=memcached-sample
old=memcacheds.v1alpha1.cache.example.com
new=memcacheds.v1.cache.example.com

now() { echo "${EPOCHREALTIME/[.,]/}"; }

# took WHAT SINCE: prints what was just shown, and how long it took.
took() {
    local time=$(($(now) - $2))
    printf '  %-72s %3d.%02d s\n' "$1" $((time / 1000000)) $((time / 10000 % 100))
}

fail() {
    echo "demo: $*" >&2
    exit 1
}

# show ARGUMENTS: prints a kubectl command, quoted for a shell.
show() {
    local word line='$ kubectl'
    for word in "$@"; do
        case $word in *[{\"]*) word="'$word'" ;; esac
        line+=" $word"
    done
    echo "$line"
}

indent() { sed -e 's/^/  /' -e 's/ *$//'; }

# run ARGUMENTS: prints a kubectl command and its output.
run() {
    show "$@"
    kubectl "$@" | indent
}

# rejected FIELD ARGUMENTS: the same for a command that must fail, with a message that names the field.
rejected() {
    local message
    show "${@:2}"
    ! message=$(kubectl "${@:2}" 2>&1) || fail 'it was not rejected'
    indent <<<"$message"
    [[ $message == *"$1"* ]] || fail "the rejection does not name $1"
}

# spec RESOURCE LINES: prints version, kind and spec of the Memcached, which must be these lines.
spec() {
    local object
    show get "$1" $memcached -o yaml
    object=$(kubectl get "$1" $memcached -o yaml |
        sed -e '/^metadata:/,/^spec:/{/^ /d; s/^metadata:/…/}' -e '/^status:/,${/^ /d; s/^status:/…/}')
    indent <<<"$object"
    [ "$object" = "$2" ] || fail "$1 differs from what was expected"
}

# ready RESOURCE NAME PODS: waits until the resource is Ready in its generation, with so many pods.
ready() {
    kubectl wait "$1" "$2" --for=condition=Ready --timeout=60s >/dev/null
    [ "$(kubectl get "$1" "$2" -o go-template='{{len .status.nodes}}')" = "$3" ] ||
        fail "$1 $2 does not have $3 pods"
}

play() {
    local began sample name kind pods children
    printf '\n# One manager for all four\n$ devcluster %s\n' "${serve[*]:1}"
    began=$(now)
    until kubectl create --dry-run=server -k config/samples >/dev/null 2>&1; do
        [ -z "${serving:-}" ] || kill -0 "$serving" 2>/dev/null || fail 'the manager ended'
        sleep 0.1
    done
    took 'ready, and called by the API server' "$began"

    printf '\n# One resource of each kind\n'
    began=$(now)
    for sample in cache_v1alpha1_memcached proxy_v1alpha1_nginx elasticweb_v1_elasticweb test_v1alpha1_helloworld; do
        run apply -f config/samples/$sample.yaml
    done
    for kind in Memcached=3 Nginx=3 ElasticWeb=3 HelloWorld=2; do
        pods=${kind#*=} kind=${kind%=*}
        name=${kind,,}-sample
        ready "${kind,,}" "$name" "$pods"
        took "$kind $name is Ready: $pods pods" "$began"
    done
    run get quartet
    run get deployments,services,pods

    printf '\n# Scaling\n'
    began=$(now)
    run scale memcached $memcached --replicas=5
    ready memcached $memcached 5
    took '5 pods' "$began"

    printf '\n# One object, in the version you know and in the new one\n'
    began=$(now)
    run patch $new $memcached --type=merge -p '{"spec":{"memory":128}}'
    run patch $old $memcached --type=merge -p '{"spec":{"size":4}}'
    spec $old $'apiVersion: cache.example.com/v1alpha1\nkind: Memcached\n…\nspec:\n  size: 4\n…'
    spec $new $'apiVersion: cache.example.com/v1\nkind: Memcached\n…\nspec:\n  memory: 128\n  replicas: 4\n…'
    ready memcached $memcached 4
    took 'rolled out: 4 pods' "$began"

    printf "\n# A mistake is refused by the API server, in the field's name\n"
    rejected spec.size patch $old $memcached --type=merge -p '{"spec":{"size":-1}}'
    rejected spec.replicas scale memcached $memcached --replicas=5000

    printf '\n# Deletion takes everything along\n'
    children=$(kubectl get $old $memcached -o go-template='{{range .status.nodes}}pod/{{.}} {{end}}')
    began=$(now)
    run delete -f config/samples/cache_v1alpha1_memcached.yaml
    # shellcheck disable=SC2086
    kubectl wait --for=delete deployment/$memcached $children --timeout=60s >/dev/null
    took 'Deployment and 4 pods garbage-collected' "$began"
}

# Stops the manager, and shows the end of its log if something failed.
finish() {
    local code=$?
    if [ -n "${serving:-}" ]; then
        kill "$serving" 2>/dev/null || true
        wait "$serving" || true
    fi
    [ $code = 0 ] || { printf "The end of the manager's log:\n" && tail -n 15 "$log"; } >&2
    exit $code
}

# The defaults, whatever this process's variables say.
export ENABLE_WEBHOOKS=true KUBECTL=kubectl
# Below the ports of outgoing connections and of Services.
port=${DEMO_PORT:-$((20000 + RANDOM % 10000))}
serve=("$devcluster" webhooks --url="https://127.0.0.1:$port" -- "$manager" --leader-elect=false
    --health-probe-bind-address=127.0.0.1:0 --webhook-port="$port")
cluster=(--definitions config/crd --)

if [ -z "${DEMO_BEGAN:-}" ]; then
    DEMO_BEGAN=$(now)
    export DEMO_BEGAN
    echo '# A Kubernetes of our own, with four kinds of resources more'
    if [ -z "${KEEP:-}" ]; then
        "$devcluster" run "${cluster[@]}" "$0" "$@"
        took 'all of it happened, and nothing is left running' "$DEMO_BEGAN"
        exit
    fi
    line=$("$devcluster" up "${cluster[@]}" "${serve[@]}")
    eval "$line"
    PATH=$(hack/build-go.sh hack/kube):$PATH
fi
run get nodes,customresourcedefinitions --output=name
took 'started' "$DEMO_BEGAN"
log=${KUBECONFIG%/*}/command.log
trap finish EXIT
if [ -z "${KEEP:-}" ]; then
    # Stopped when this shell ends, however it ends.
    setpriv --pdeathsig=TERM -- "${serve[@]}" >"$log" 2>&1 &
    serving=$!
fi
play
if [ -n "${KEEP:-}" ]; then
    printf '\n# All of it happened. Cluster and manager stay until `make demo-down`;\n'
    echo "# the manager's log is $log"
    echo "$line"
    exit
fi
printf '\n# The end\n'
began=$(now)
kill "$serving"
wait "$serving" || fail "the manager did not end well on SIGTERM: exit code $?"
serving=
took 'manager stopped' "$began"
