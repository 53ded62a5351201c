# A child is restored with a reference to the owner of before, whose uid is gone.
# velero-io/velero#7862
restore() {
    kubectl apply -f - <<YAML
apiVersion: apps/v1
kind: Deployment
metadata:
  name: $1
  ownerReferences: [{apiVersion: proxy.example.com/v1, kind: Nginx, name: $1, uid: 00000000-0000-4000-8000-000000000000, controller: true, blockOwnerDeletion: true}]
spec:
  selector: {matchLabels: {app: $1}}
  template: {metadata: {labels: {app: $1}}, spec: {containers: [{name: nginx, image: old}]}}
YAML
}
restore child-first
apply Nginx child-first '{replicas: 1}'
ready nginx/child-first
is deployment/child-first '.metadata.ownerReferences[0].uid' "$(field nginx/child-first .metadata.uid)"
