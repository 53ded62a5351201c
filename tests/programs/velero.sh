# Velero backs a namespace up. It is deleted and restored with its name, and once more into another one: all
# resources are Ready and have adopted their children, and no pod was replaced.
. tests/programs/functions.bash
read -r s3_port _ <<<"$PORTS"
programs=$(hack/build-go.sh hack/velero)
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=a
namespaced=$NAMESPACE
crds=$(folder github.com/vmware-tanzu/velero velero)/config/crd

clean() {
    command kubectl delete namespace velero --timeout=60s
    command kubectl delete -f "$crds/v1/bases" -f "$crds/v2alpha1/bases" --timeout=60s
}

command kubectl create namespace velero
kubectl apply --server-side -f "$crds/v1/bases" -f "$crds/v2alpha1/bases"
kubectl wait --for=condition=Established crd --all --timeout=60s >/dev/null
command kubectl --namespace velero apply -f - <<EOF
apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {name: default}
spec:
  provider: aws
  default: true
  objectStorage: {bucket: backups}
  config: {region: local, s3ForcePathStyle: "true", s3Url: "http://127.0.0.1:$s3_port", checksumAlgorithm: ""}
EOF
# Velero asks its own Deployment for an image, though no pod is restored by another.
command kubectl --namespace velero create deployment velero --image="velero/velero:v1" --replicas=0
start s3 "$programs/s3-server" backups "127.0.0.1:$s3_port"
mkdir "$work/plugins"
ln -s "$programs/velero-plugin-for-aws" "$work/plugins"
start velero "$programs/velero" server --namespace=velero --plugin-dir="$work/plugins" --metrics-address=127.0.0.1:0 \
    --profiler-address=127.0.0.1:0
velero() {
    "$programs/velero" --namespace velero "$@"
}

# state: prints the names of the pods, and what the children are.
state() {
    kubectl get pods,replicasets -o name
    kubectl get deployments,services -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.spec.replicas} {.spec.selector} {.spec.template} {.spec.ports}{"\n"}{end}'
}

# restored ARGUMENT…: restores the backup, and checks what came of it.
restored() {
    velero restore create "restore-$NAMESPACE" --from-backup=all --wait "$@"
    found=$(velero restore get "restore-$NAMESPACE")
    [[ $found == *Completed* ]] || fail "$found"
    ready "${resources[@]}"
    diff <(echo "$before") <(state) || fail "the children are others"
    diff <(kubectl get "$kinds" -o jsonpath='{range .items[*]}{.metadata.uid}{"\n"}{end}' | sort) \
        <(kubectl get deployments,services -o jsonpath='{range .items[*]}{.metadata.ownerReferences[0].uid}{"\n"}{end}' | sort -u) ||
        fail "not every child is adopted"
    quiet 20
    diff <(echo "$before") <(state) || fail "the children changed afterwards"
}

resources=(memcached/memory nginx/proxy helloworld/hello elasticweb/web)
apply Memcached memory '{replicas: 2, memory: 128, service: {enabled: true}}'
apply Nginx proxy '{replicas: 2, service: {}}'
apply HelloWorld hello '{replicas: 2}'
apply ElasticWeb web '{image: "nginx:1.28.3-alpine", service: {nodePort: 30113}, capacity: {perPodQPS: 10, targetQPS: 20}}'
ready "${resources[@]}"
eventually unchanged_for 10
before=$(state)
stores() {
    found=$(command kubectl --namespace velero get backupstoragelocation default -o jsonpath='{.status}')
    [[ $found == *'"Available"'* ]]
}
eventually stores
velero backup create all --include-namespaces="$NAMESPACE" --wait
found=$(velero backup get all)
[[ $found == *Completed* ]] || fail "$found"

command kubectl delete namespace "$namespaced" --timeout=120s
restored
# The node port is free again.
command kubectl delete namespace "$namespaced" --timeout=120s
NAMESPACE=$OTHER
restored --namespace-mappings="$namespaced:$OTHER"
