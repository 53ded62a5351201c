# Names of each length that the API server takes, with dots, with and without a Service.
# scylladb/scylla-operator#2722, jaegertracing/jaeger-operator#487
of() {
    printf "%$1s" | tr ' ' "$2"
}
for name in $(of 63 a) ; do
    apply Nginx "$name" '{replicas: 1, service: {}}'
    ready "nginx/$name"
done
for name in $(of 64 b) a.b; do
    ! apply Nginx "$name" '{replicas: 1, service: {}}' || fail "accepted: $name"
done
for name in $(of 64 b) a.b $(of 242 c) $(of 243 d) $(of 253 e); do
    apply Nginx "$name" '{replicas: 1}'
done
for name in $(of 64 b) a.b $(of 242 c) $(of 243 d) $(of 253 e); do
    ready "nginx/$name" >/dev/null
    pods=$(kubectl get pods -o name -l "$(field "nginx/$name" .status.selector)" | wc -l)
    [ "$pods" = 1 ] || fail "$name: $pods pods"
done
