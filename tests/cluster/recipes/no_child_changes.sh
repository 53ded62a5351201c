# A change of the spec that changes no child is observed, too.
# k8ssandra/cass-operator#657
apply ElasticWeb observed '{image: a, capacity: {perPodQPS: 10, targetQPS: 20}, service: {nodePort: 30213}}'
ready elasticweb/observed
version=$(field deployment/observed .metadata.generation)
apply ElasticWeb observed '{image: a, capacity: {perPodQPS: 10, targetQPS: 19}, service: {nodePort: 30213}}'
LIMIT=10 eventually is elasticweb/observed .status.observedGeneration 2
[ "$(condition elasticweb/observed Ready observedGeneration)" = 2 ]
ready elasticweb/observed
is deployment/observed .metadata.generation "$version"
