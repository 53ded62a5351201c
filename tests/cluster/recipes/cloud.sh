# What the controller of a cloud writes into a Service stays: finalizers, annotations, addresses.
# strimzi/strimzi-kafka-operator#5260
apply Nginx clouded '{replicas: 1, service: {type: LoadBalancer}}'
ready nginx/clouded
kubectl patch service clouded --type=merge -p '{"metadata": {"finalizers": ["service.kubernetes.io/load-balancer-cleanup"], "annotations": {"cloud": "id"}}}'
kubectl patch service clouded --subresource=status --type=merge -p '{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}'
apply Nginx clouded '{replicas: 1, service: {type: LoadBalancer, port: 8080}}'
eventually is service/clouded '.spec.ports[*].port' 8080
is service/clouded .metadata.finalizers '["service.kubernetes.io/load-balancer-cleanup"]'
is service/clouded .metadata.annotations.cloud id
is service/clouded '.status.loadBalancer.ingress[0].ip' 192.0.2.1
ready nginx/clouded
kubectl delete --wait=false nginx clouded
kubectl wait --for=delete --timeout=30s nginx/clouded
kubectl wait --for=jsonpath='{.metadata.deletionTimestamp}' --timeout=30s service/clouded
kubectl patch service clouded --type=merge -p '{"metadata": {"finalizers": null}}'
kubectl wait --for=delete --timeout=30s service/clouded deployment/clouded
