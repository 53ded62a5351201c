#!/usr/bin/env bash
# Writes the certificates of FILE (PEM) into the caBundle of the CRDs and of the webhook
# configuration, in the cluster of KUBECONFIG and with its user's permissions. For
# config/given-certificate.
#
#   hack/ca-bundle.sh FILE
set -euo pipefail

file=${1:?usage: hack/ca-bundle.sh FILE}
grep -q -e '-----BEGIN CERTIFICATE-----' "$file" || {
    echo "ca-bundle: $file has no certificate in PEM" >&2
    exit 1
}
# Without a private key that the file may have, too: everybody may read a caBundle.
certificates=$(sed -n '/-----BEGIN CERTIFICATE-----/,/-----END CERTIFICATE-----/p' "$file")
! grep -q 'PRIVATE KEY' <<<"$certificates" || {
    echo "ca-bundle: a certificate in $file does not end before the private key; is it on one line?" >&2
    exit 1
}
ca=$(base64 <<<"$certificates" | tr -d '\n')
configuration=quartet-operator-validating-webhook-configuration

service=quartet-operator-controller-manager-service

# The CRDs that the manager converts.
crds=$(kubectl get customresourcedefinitions -o jsonpath="{range .items[?(@.spec.conversion.webhook.clientConfig.service.name==\"$service\")]}{.metadata.name}{\"\n\"}{end}")
[ -n "$crds" ] || {
    echo "ca-bundle: no CRD is converted by the Service $service: apply config/given-certificate first" >&2
    exit 1
}
for crd in $crds; do
    kubectl patch customresourcedefinition "$crd" --type=merge \
        -p "{\"spec\":{\"conversion\":{\"webhook\":{\"clientConfig\":{\"caBundle\":\"$ca\"}}}}}"
done
# Webhooks are merged by their names.
webhooks=
for name in $(kubectl get validatingwebhookconfiguration "$configuration" \
    -o jsonpath='{.webhooks[*].name}'); do
    webhooks+="${webhooks:+,}{\"name\":\"$name\",\"clientConfig\":{\"caBundle\":\"$ca\"}}"
done
kubectl patch validatingwebhookconfiguration "$configuration" --type=strategic \
    -p "{\"webhooks\":[$webhooks]}"
