# The API server chooses the name.
# operator-framework/catalogd#382
created=$(
    kubectl create -o name -f - <<'YAML'
{apiVersion: cache.example.com/v1, kind: Memcached, metadata: {generateName: a-}, spec: {replicas: 1, service: {enabled: true}}}
---
{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {generateName: b-}, spec: {size: 1}}
---
{apiVersion: elasticweb.example.com/v1, kind: ElasticWeb, metadata: {generateName: c-}, spec: {image: a, port: 30211, singlePodsQPS: 1, totalQPS: 1}}
YAML
)
# shellcheck disable=SC2086
ready $created
! kubectl create -f - <<'YAML' || fail accepted
{apiVersion: elasticweb.example.com/v1, kind: ElasticWeb, metadata: {generateName: 0-}, spec: {image: a, port: 30212, singlePodsQPS: 1, totalQPS: 1}}
YAML
