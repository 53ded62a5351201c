# A backup brings back the status of an object whose generation was higher.
# velero-io/velero#6017
apply Nginx restored '{replicas: 1}'
ready nginx/restored
kubectl patch nginx restored --subresource=status --type=merge -p '{"status": {
    "observedGeneration": 50, "readyReplicas": 9, "nodes": ["gone"], "selector": "a=b", "replicas": 9,
    "conditions": [{"type": "Ready", "status": "True", "reason": "Restored", "message": "", "observedGeneration": 50,
        "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}'
LIMIT=10 eventually is nginx/restored .status.observedGeneration 1
is nginx/restored .status.readyReplicas 1
[ "$(condition nginx/restored Ready observedGeneration)" = 1 ]
[ "$(condition nginx/restored Ready reason)" != Restored ]
