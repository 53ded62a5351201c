//! After a failed phase: removes what it may have left, so that the next phase can run.

use std::any::Any;

use crate::node::Node;
use crate::shell::Shell;

/// Everything that a phase may have installed or created. Some of it is usually not there.
const COMMANDS: [&str; 12] = [
    "kubectl delete -k config/olm-v1 --ignore-not-found --timeout=120s",
    "kubectl delete -k config/olm --ignore-not-found --timeout=120s",
    "kubectl -n operators delete subscription,csv --all --timeout=120s",
    "kubectl -n olm delete catalogsource quartet-operator-catalog --ignore-not-found --timeout=60s",
    // Without a manager, a deletion of resources in the version that is not stored waits.
    "kubectl get crd -o name | grep -E '(cache|proxy|elasticweb).example.com|jiaozi.com' | \
     xargs -r kubectl patch --type=merge -p '{\"spec\":{\"conversion\":{\"strategy\":\"None\",\"webhook\":null}}}'",
    "kubectl get crd -o name | grep -E '(cache|proxy|elasticweb).example.com|jiaozi.com' | \
     xargs -r kubectl delete --timeout=120s",
    "kubectl delete deployments,services --all-namespaces -l app.kubernetes.io/managed-by=quartet-operator \
     --cascade=foreground --timeout=60s",
    "kubectl get namespaces -o name | grep -E 'operator-system$|/(users|shop|nowhere|scorecard|restricted|baseline)$' | \
     xargs -r kubectl delete --timeout=120s",
    "kubectl -n olmv1-system delete secrets -l owner=operator-controller,name=quartet-operator",
    "kubectl -n kube-system delete rolebinding {quartet,redis}-operator-controller-manager-service-auth-reader --ignore-not-found",
    // OLM may not be there: kubectl then lists none of the types.
    "kubectl get operators -o name | grep -E '(quartet|redis)-operator' | xargs -r kubectl delete --timeout=60s",
    "kubectl get clusterroles,clusterrolebindings,validatingwebhookconfigurations -o name | \
     grep -E '(quartet|redis)-operator|memcached|nginx|elasticweb|helloworld' | xargs -r kubectl delete --timeout=60s",
];

/// What would disturb the next phase.
const LEFT: &str = "kubectl get crd,clusterroles,clusterrolebindings,validatingwebhookconfigurations,namespaces,rolebindings -n kube-system -o name | \
     sed -nE '/(quartet|redis)-operator|(cache|proxy|elasticweb).example.com|jiaozi.com/p'";

/// Removes what a failed phase left, as far as that succeeds.
pub(crate) fn clean(shell: &Shell) {
    for command in COMMANDS {
        shell.show(command);
    }
}

/// After a failed phase: the objects that the cleaning did not remove.
pub(crate) fn left_by(red: &[String], node: &Node) -> Option<String> {
    if red.is_empty() {
        return None;
    }
    let left = node.shell.must(LEFT);
    (!left.trim().is_empty()).then_some(left)
}

/// The message of a failed assertion.
pub(crate) fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_default()
}
