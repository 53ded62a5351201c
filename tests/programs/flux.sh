# Flux's source-controller and kustomize-controller roll a folder of a Git repository forward to the new version and
# back. They put right what is changed by hand, and otherwise nothing is written.
. tests/programs/functions.bash
read -r git_port storage_port _ <<<"$PORTS"
programs=$(hack/build-go.sh hack/flux-controllers)
export RUNTIME_NAMESPACE=flux-system

clean() {
    flux delete kustomizations,gitrepositories --all --timeout=60s
    command kubectl delete -f "${crds[0]}" -f "${crds[1]}" --timeout=60s
    command kubectl delete namespace flux-system --timeout=60s
}

crds=("$(folder github.com/fluxcd/source-controller flux-controllers)/config/crd/bases"
    "$(folder github.com/fluxcd/kustomize-controller flux-controllers)/config/crd/bases")
kubectl apply --server-side -f "${crds[0]}" -f "${crds[1]}"
kubectl wait --for=condition=Established crd --all --timeout=60s >/dev/null

flux() {
    command kubectl --namespace flux-system "$@"
}
flux create namespace flux-system
mkdir "$work/storage"
start git "$programs/git-server" "$work" "127.0.0.1:$git_port"
flags=(--watch-all-namespaces=false --metrics-addr=0 --health-addr=127.0.0.1:0 --interval-jitter-percentage=0)
start source-controller "$programs/source-controller" "${flags[@]}" --storage-path="$work/storage" \
    --storage-addr="127.0.0.1:$storage_port" --storage-adv-addr="127.0.0.1:$storage_port"
start kustomize-controller "$programs/kustomize-controller" "${flags[@]}"

git init --quiet --initial-branch=main "$work/apps"
git() {
    command git -C "$work/apps" -c user.name=a -c user.email=a@example.com "$@"
}

# commit LABEL VERSION VERSION SPEC…: the resources in the first version, the last one in the second.
commit() {
    cat >"$work/apps/apps.yaml" <<EOF
{apiVersion: cache.example.com/$2, kind: Memcached, metadata: {name: memory, labels: {app: $1}}, spec: $4}
---
{apiVersion: proxy.example.com/$2, kind: Nginx, metadata: {name: proxy, labels: {app: $1}}, spec: $5}
---
{apiVersion: test.jiaozi.com/$2, kind: HelloWorld, metadata: {name: hello, labels: {app: $1}}, spec: $6}
---
{apiVersion: elasticweb.example.com/$3, kind: ElasticWeb, metadata: {name: web, labels: {app: $1}}, spec: $7}
EOF
    git add apps.yaml
    git commit --quiet --message "$1"
}

# reconciled: kustomize-controller has applied the newest commit, and says that all are healthy.
reconciled() {
    found=$(flux get kustomization apps -o jsonpath='{.status.lastAppliedRevision} {.status.conditions[?(@.type=="Ready")].status}')
    [ "$found" = "main@sha1:$(git rev-parse HEAD) True" ]
}

# state: prints every spec and label of the resources and their children.
state() {
    kubectl get "$kinds,deployments,services" \
        -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.labels} {.spec}{"\n"}{end}'
}

# rolled_to LABEL REPLICAS SERVICES: the resources have the label and are Ready, and their children are these.
rolled_to() {
    LIMIT=120 eventually reconciled
    found=$(kubectl get "$kinds" -o jsonpath='{range .items[*]}{.metadata.labels.app}{.status.conditions[?(@.type=="Ready")].status} {end}')
    [ "$found" = "$1True $1True $1True $1True " ] || fail "after the commit $1: $found"
    found=$(kubectl get deployments,services -o jsonpath='{range .items[*]}{.metadata.name}{.spec.replicas} {end}')
    [ "$found" = "$2" ] || fail "after the commit $1: $found"
}

original=(original v1alpha1 v1 '{size: 2}' '{count: 2}' '{size: 2}'
    '{image: "nginx:1.28.3-alpine", port: 30112, singlePodsQPS: 10, totalQPS: 20}')
new=(new v1 v2 '{replicas: 1, memory: 128, service: {enabled: true}}' '{replicas: 1, service: {}}'
    '{replicas: 1, scheduling: {tolerations: [{operator: Exists}]}}'
    '{image: "nginx:1.28.3-alpine", service: {nodePort: 30112}, capacity: {perPodQPS: 10, targetQPS: 10}}')
commit "${original[@]}"
flux apply -f - <<EOF
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: apps}
spec: {interval: 5s, url: "http://127.0.0.1:$git_port/apps", ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps}
spec:
  sourceRef: {kind: GitRepository, name: apps}
  path: ./
  targetNamespace: $NAMESPACE
  interval: 10s
  timeout: 60s
  wait: true
  prune: true
  force: false
EOF
rolled_to original 'hello2 memory2 proxy2 web2 web '
before=$(state)

commit "${new[@]}"
rolled_to new 'hello1 memory1 proxy1 web1 memory proxy web '
quiet "$((${HOLD:-300} / 5))"
kubectl scale helloworld hello --replicas=3
kubectl label --overwrite nginx proxy app=hand
eventually is helloworld/hello .spec.replicas 1
eventually is nginx/proxy .metadata.labels.app new
eventually is deployment/hello .spec.replicas 1
rolled_to new 'hello1 memory1 proxy1 web1 memory proxy web '

git revert --no-edit HEAD >/dev/null
rolled_to original 'hello2 memory2 proxy2 web2 web '
diff <(echo "$before") <(state) || fail "after the roll back it is not what it was"
count() {
    grep -c 'Reconciliation finished' "$work/kustomize-controller.log"
}
eventually unchanged_for 10
began=$(count)
quiet "${HOLD:-300}"
applied=$(($(count) - began))
[ $applied -ge $((${HOLD:-300} / 20)) ] || fail "the folder was applied $applied times only"

flux delete kustomization apps --timeout=60s
gone() {
    found=$(kubectl get "$kinds,deployments,services" -o name)
    [ -z "$found" ]
}
eventually gone
