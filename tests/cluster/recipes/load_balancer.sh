# Fields that only a LoadBalancer may have, set by hand, before the type changes.
# couchbase-partners/helm-charts#114
apply Nginx balanced '{replicas: 1, service: {type: LoadBalancer}}'
ready nginx/balanced
kubectl patch service balanced --type=merge -p '{"spec": {"externalTrafficPolicy": "Local", "loadBalancerIP": "192.0.2.1", "allocateLoadBalancerNodePorts": false, "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Local", "publishNotReadyAddresses": true}}'
for type in ClusterIP NodePort LoadBalancer ClusterIP; do
    apply Nginx balanced "{replicas: 1, service: {type: $type}}"
    eventually is service/balanced .spec.type "$type"
    ready nginx/balanced
done
kubectl patch service balanced --type=merge -p '{"spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/theirs", "externalTrafficPolicy": "Local"}}'
eventually is service/balanced .spec.type ClusterIP
kubectl patch service balanced --type=merge -p '{"spec": {"type": "ExternalName", "externalName": "example.org", "clusterIP": "", "clusterIPs": null}}'
eventually is service/balanced .spec.type ClusterIP
eventually [ -n "$(field service/balanced .spec.clusterIP)" ]
ready nginx/balanced
# A Service of another type may not have them, and they are not the operator's.
apply Nginx balanced '{replicas: 1, service: {type: LoadBalancer}}'
eventually is service/balanced .spec.type LoadBalancer
kubectl patch service balanced --type=merge -p '{"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}}'
apply Nginx balanced '{replicas: 1, service: {type: ClusterIP}}'
degraded nginx/balanced ApplyRefused
kubectl patch service balanced --type=json -p '[{"op": "remove", "path": "/spec/loadBalancerSourceRanges"}]'
# Sooner than the next attempt after a refusal, which is due after 12 s.
LIMIT=8 eventually is service/balanced .spec.type ClusterIP
ready nginx/balanced
