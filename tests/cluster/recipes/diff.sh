# kubectl finds no difference after it has applied a sample, in either way.
samples=$(printf -- ' -f %s' config/samples/*_*.yaml)
# shellcheck disable=SC2086
{
    kubectl apply $samples
    ready $(kubectl get $samples -o name)
    kubectl diff $samples
    kubectl apply --server-side $samples
    kubectl diff --server-side $samples
}
