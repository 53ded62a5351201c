# The metrics of a resource end with it.
# cert-manager/cert-manager#2248
kubectl create deployment unmeasured --image=theirs
apply Nginx unmeasured '{replicas: 1}'
degraded nginx/unmeasured NameConflict
measured() {
    curl --silent --fail "$METRICS" | grep 'name="unmeasured"'
}
eventually measured
kubectl delete nginx unmeasured
LIMIT=10 eventually eval '! measured'
curl --silent --fail "$METRICS" | grep '^quartet_operator_resources{' | grep NameConflict | grep -v ' 0$' && fail counted || :
