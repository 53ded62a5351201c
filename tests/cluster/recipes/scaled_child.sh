# An autoscaler whose target is the Deployment writes every 15 s: a few edits are undone at once and silently, a
# lasting fight is reported within three minutes. operator-framework/operator-sdk#3367
apply Memcached contested '{replicas: 1}'
ready memcached/contested
for turn in {1..11}; do
    kubectl scale deployment contested --replicas=3
    next=$((SECONDS + 15))
    if [ "$turn" -le 5 ]; then
        LIMIT=5 eventually is deployment/contested .spec.replicas 1
        is memcached/contested '.status.conditions[?(@.type=="Degraded")].status' False
    fi
    while [ $SECONDS -lt $next ]; do sleep 0.1; done
done
is memcached/contested '.status.conditions[?(@.type=="Degraded")].reason' FieldConflict
[[ $(condition memcached/contested Ready message) == *'"kubectl" keeps changing spec.replicas'* ]] ||
    fail "$(condition memcached/contested Ready message)"
