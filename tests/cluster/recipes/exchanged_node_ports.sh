# Two resources exchange their node ports in one file: each is told that the port of the other is in use, and a third
# port for one of them resolves it.
apply_both() {
    apply ElasticWeb one "{image: a, capacity: {perPodQPS: 1, targetQPS: 1}, service: {nodePort: $1}}"
    apply ElasticWeb other "{image: a, capacity: {perPodQPS: 1, targetQPS: 1}, service: {nodePort: $2}}"
}
apply_both 30201 30202
ready elasticweb/one elasticweb/other
apply_both 30202 30201
degraded elasticweb/one NodePortUnavailable
degraded elasticweb/other NodePortUnavailable
is service/one '.spec.ports[0].nodePort' 30201
apply_both 30203 30201
LIMIT=90 eventually is service/other '.spec.ports[0].nodePort' 30201
apply_both 30202 30201
ready elasticweb/one elasticweb/other
is service/one '.spec.ports[0].nodePort' 30202
