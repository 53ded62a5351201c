# kubectl prunes what left the folder, and only that: kinds are removed and a version is changed.
export KUBECTL_APPLYSET=true
set_to() {
    kubectl apply --prune --applyset=team -f -
}
set_to <<'YAML'
{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: stays}, spec: {size: 1}}
---
{apiVersion: proxy.example.com/v1alpha1, kind: Nginx, metadata: {name: goes}, spec: {count: 1}}
---
{apiVersion: test.jiaozi.com/v1, kind: HelloWorld, metadata: {name: goes-too}, spec: {replicas: 1}}
YAML
ready memcached/stays nginx/goes helloworld/goes-too
uid=$(field memcached/stays .metadata.uid)
set_to <<'YAML'
{apiVersion: cache.example.com/v1, kind: Memcached, metadata: {name: stays}, spec: {replicas: 2}}
YAML
kubectl wait --for=delete --timeout=60s nginx/goes helloworld/goes-too deployment/goes deployment/goes-too
ready memcached/stays
is deployment/stays .spec.replicas 2
set_to <<'YAML'
{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: stays}, spec: {size: 1}}
YAML
ready memcached/stays
is deployment/stays .spec.replicas 1
is memcached/stays .metadata.uid "$uid"
set_to <<'YAML'
{apiVersion: v1, kind: ConfigMap, metadata: {name: the-last}}
YAML
kubectl wait --for=delete --timeout=60s memcached/stays
