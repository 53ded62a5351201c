# A HorizontalPodAutoscaler whose target is a resource in its original version.
kubectl apply -f - <<'YAML'
{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: autoscaled}, spec: {size: 1}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: autoscaled}
spec:
  scaleTargetRef: {apiVersion: cache.example.com/v1alpha1, kind: Memcached, name: autoscaled}
  minReplicas: 2
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
YAML
eventually is memcacheds.v1alpha1.cache.example.com/autoscaled .spec.size 2
eventually is deployment/autoscaled .status.readyReplicas 2
