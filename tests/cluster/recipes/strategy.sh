# Somebody changes the strategy of a Deployment to Recreate.
# openshift/hypershift#937
apply Nginx recreated '{replicas: 1}'
ready nginx/recreated
kubectl patch deployment recreated -p '{"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}'
sleep 3
field deployment/recreated .spec.strategy
apply Nginx recreated '{replicas: 2, image: "nginx:two"}'
ready nginx/recreated
is deployment/recreated '.spec.template.spec.containers[0].image' nginx:two
field deployment/recreated .spec.strategy
