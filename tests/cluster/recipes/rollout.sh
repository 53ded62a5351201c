# kubectl rollout restart, undo, pause and resume of a Deployment that the operator owns.
apply Nginx rolled '{replicas: 2}'
ready nginx/rolled
kubectl rollout restart deployment/rolled
kubectl rollout status --timeout=60s deployment/rolled
restarted=$(field deployment/rolled '.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt')
[ -n "$restarted" ]
apply Nginx rolled '{replicas: 3}'
ready nginx/rolled
is deployment/rolled '.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt' "$restarted"

apply Nginx rolled '{replicas: 3, image: "nginx:two"}'
ready nginx/rolled
kubectl rollout undo deployment/rolled
eventually is deployment/rolled '.spec.template.spec.containers[0].image' nginx:two
ready nginx/rolled

kubectl rollout pause deployment/rolled
apply Nginx rolled '{replicas: 3, image: "nginx:three"}'
degraded nginx/rolled DeploymentPaused
kubectl rollout resume deployment/rolled
ready nginx/rolled
is deployment/rolled '.spec.template.spec.containers[0].image' nginx:three
