# Pods that were evicted stay as objects. They are neither nodes nor replicas.
# kubernetes/kubernetes#98012
apply Nginx evicted '{replicas: 2}'
ready nginx/evicted
pod=$(field nginx/evicted '.status.nodes[0]')
kubectl patch pod "$pod" --subresource=status --type=merge -p '{"status": {"phase": "Failed", "reason": "Evicted"}}'
eventually is pod/"$pod" .status.phase Failed
replaced() {
    found=$(field nginx/evicted .status)
    [ "$(field nginx/evicted '.status.nodes[*]' | wc -w)" = 2 ] && [[ $found != *"$pod"* ]]
}
eventually replaced
ready nginx/evicted
kubectl get pod "$pod"
is nginx/evicted .status.replicas 2
is nginx/evicted .status.readyReplicas 2
