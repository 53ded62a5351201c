# Labels and annotations with which tools track a resource: no pod is replaced, and no child gets them. Those
# of a child stay.
# rabbitmq/cluster-operator#442, argoproj/argo-cd#8683
apply Nginx tracked '{replicas: 1, service: {}}'
ready nginx/tracked
pod=$(field nginx/tracked '.status.nodes[0]')
kubectl label --overwrite nginx tracked app.kubernetes.io/instance=argo kustomize.toolkit.fluxcd.io/name=flux app.kubernetes.io/managed-by=Helm
kubectl annotate nginx tracked argocd.argoproj.io/tracking-id=argo:proxy.example.com/Nginx:a/tracked meta.helm.sh/release-name=helm
kubectl label service,deployment tracked argocd.argoproj.io/instance=children
kubectl annotate service,deployment tracked argocd.argoproj.io/compare-options=IgnoreExtraneous
apply Nginx tracked '{replicas: 2, service: {}}'
ready nginx/tracked
[[ $(field nginx/tracked '.status.nodes') == *"$pod"* ]] || fail "$pod was replaced"
is deployment/tracked '.metadata.labels.app\.kubernetes\.io/instance' tracked
for child in service/tracked deployment/tracked; do
    is "$child" '.metadata.labels.argocd\.argoproj\.io/instance' children
    is "$child" '.metadata.annotations.argocd\.argoproj\.io/compare-options' IgnoreExtraneous
    ! kubectl get "$child" -o yaml | grep -E 'tracking-id|fluxcd|helm.sh|last-applied|: argo$' || fail "$child"
done
