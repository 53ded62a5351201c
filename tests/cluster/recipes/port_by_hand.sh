# Somebody edits the number of a port, and leaves its name.
# kubernetes/kubernetes#131147, rabbitmq/cluster-operator#2219
apply Nginx ported '{replicas: 1, service: {port: 80}}'
ready nginx/ported
kubectl patch service ported --type=json -p '[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]'
kubectl patch deployment ported --type=json -p '[{"op": "replace", "path": "/spec/template/spec/containers/0/ports/0/containerPort", "value": 9090}]'
eventually is service/ported '.spec.ports[*].port' 80
eventually is deployment/ported '.spec.template.spec.containers[0].ports[*].containerPort' 8080
ready nginx/ported

# Another field manager has the port, too, when the resource changes it.
kubectl apply --server-side --field-manager=other -f - <<YAML
{apiVersion: v1, kind: Service, metadata: {name: ported}, spec: {ports: [{name: $(field service/ported '.spec.ports[0].name'), port: 80}]}}
YAML
apply Nginx ported '{replicas: 1, service: {port: 8080}}'
eventually is service/ported '.spec.ports[*].port' 8080
ready nginx/ported
