# kubectl edits and explains each version.
apply Nginx edited '{replicas: 1, service: {}}'
KUBE_EDITOR="sed -i 's/ replicas: 1/ replicas: 2/'" kubectl edit nginx edited
eventually is deployment/edited .spec.replicas 2
KUBE_EDITOR="sed -i 's/ count: 2/ count: 3/'" kubectl edit nginxes.v1alpha1.proxy.example.com edited
eventually is deployment/edited .spec.replicas 3
is nginx/edited .spec.service '{}' || is nginx/edited .spec.service.port 80
for kind in memcached nginx elasticweb helloworld; do
    kubectl explain "$kind.spec.image" | grep >/dev/null 'Container image'
    kubectl explain "$kind" --recursive | grep >/dev/null tolerationSeconds
    ! kubectl explain "$kind.spec.imagee" || fail explained
done
kubectl explain memcached.spec.size --api-version=cache.example.com/v1alpha1 | grep >/dev/null 'Number of memcached pods'
! kubectl explain memcached.spec.size || fail 'the new version has no size'
