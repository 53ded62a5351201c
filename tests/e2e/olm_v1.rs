//! Installation by OLM v1, from the same catalog as by OLM.

use std::thread;
use std::time::Duration;

use crate::calls::Calls;
use crate::node::{IMAGES, NAMESPACE, NEXT, Node};
use crate::operands;
use crate::plain::MANAGER;
use crate::shell::Shell;
use crate::uninstall::{self, Before};

const PATIENCE: Duration = Duration::from_secs(300);
/// The folder with OLM v1's release manifest and its patches.
const FOLDER: &str = "target/e2e/olm-v1";

/// `config/olm-v1`: a ClusterCatalog, a ClusterExtension, and a ServiceAccount with the permissions
/// that the installation needs. The upgrade comes with a newer catalog.
pub(crate) fn installs_upgrades_and_uninstalls(node: &Node) {
    let shell = &node.shell;
    prepare(node);
    let before_it = Before::installation(shell);
    not_beside_another_installation(shell);

    install(node);
    operands::samples_under_olm(shell);
    operands::answer(shell);
    operands::rejected_and_converted(shell);
    changes_are_undone(shell);

    let before = operands::State::of(shell);
    let calls = Calls::start(&node.cluster.kubeconfig());
    shell.must(&format!(
        "kubectl patch clustercatalog quartet-operator-catalog --type=merge \
         -p '{{\"spec\":{{\"source\":{{\"image\":{{\"ref\":\"{IMAGES}-catalog:v{NEXT}\"}}}}}}}}'"
    ));
    installed(shell, NEXT);
    // Until OLM v1 and cert-manager have written everything.
    thread::sleep(Duration::from_secs(20));
    for (sort, tally) in calls.stop() {
        assert_eq!(tally.failed, 0, "{sort:?}");
    }
    before.assert_unchanged(shell);
    operands::both_versions_answer(shell);
    released_and_managed_again(shell);
    before.assert_unchanged(shell);

    uninstall::by_row(shell, uninstall::OLM_V1);
    uninstall::by_block(shell, uninstall::OLM_V1_HISTORY);
    before_it.nothing_left(shell);
    remove(shell);
}

/// `config/olm-v1`, in a cluster that is prepared.
pub(crate) fn install(node: &Node) {
    let shell = &node.shell;
    shell.must("kubectl apply -k config/olm-v1");
    shell.must(
        "kubectl wait --for=condition=Installed --timeout=5m clusterextension/quartet-operator",
    );
    installed(shell, "0.1.0");
}

/// Removes OLM v1 itself.
pub(crate) fn remove(shell: &Shell) {
    shell.must(&format!("kubectl delete -k {FOLDER} --timeout=120s"));
}

/// OLM v1 as released, with the feature gate that 1.5 needs for bundles with webhooks.
pub(crate) fn prepare(node: &Node) {
    let shell = &node.shell;
    node.dns();
    node.cert_manager();
    shell.must(&format!(
        "mkdir -p {FOLDER} && cp -f hack/e2e/manifests/olm-v1/* {FOLDER} && \
         cp -f $(cd hack/olm-v1 && go list -m -f {{{{.Dir}}}} \
         github.com/operator-framework/operator-controller)/manifests/standard.yaml {FOLDER}"
    ));
    shell.must(&format!("kubectl apply --server-side -k {FOLDER}"));
    for part in ["catalogd", "operator-controller"] {
        shell.must(&format!(
            "kubectl -n olmv1-system rollout status deployment/{part}-controller-manager --timeout=180s"
        ));
    }
    // Its webhook is trusted once cert-manager has written the caBundle.
    shell.until(
        "kubectl create --dry-run=server -o name -f config/olm-v1/cluster_catalog.yaml | wc -l",
        "1",
        Duration::from_secs(60),
    );
}

/// OLM v1 leaves existing objects alone and reports that.
fn not_beside_another_installation(shell: &Shell) {
    shell.must("kubectl apply --server-side -k config/crd");
    shell.must("kubectl apply -k config/olm-v1");
    shell.until(
        "kubectl get clusterextension quartet-operator \
         -o jsonpath='{.status.conditions[?(@.type==\"Progressing\")].message}' | \
         grep -c \"CustomResourceDefinition '.*' already exists in namespace\"",
        "1",
        PATIENCE,
    );
    shell.must("kubectl delete -k config/olm-v1 --timeout=120s");
    shell.must("kubectl delete -k config/crd --timeout=60s");
}

/// Waits until OLM v1 has installed that version, and the manager serves.
fn installed(shell: &Shell, version: &str) {
    shell.until(
        "kubectl get clusterextension quartet-operator -o jsonpath='{.status.install.bundle.version} \
         {.status.conditions[?(@.type==\"Installed\")].status}'",
        &format!("{version} True"),
        PATIENCE,
    );
    shell.must(&format!(
        "kubectl -n {NAMESPACE} rollout status {MANAGER} --timeout=180s"
    ));
}

/// OLM v1 reconciles its objects: edits are reverted.
fn changes_are_undone(shell: &Shell) {
    let limit = "{.spec.template.spec.containers[0].resources.limits.memory}";
    let asked = format!("kubectl -n {NAMESPACE} get {MANAGER} -o jsonpath='{limit}'");
    let before = shell.must(&asked);
    shell.must(&format!(
        "kubectl -n {NAMESPACE} set resources {MANAGER} --limits=memory=300Mi"
    ));
    shell.until(&asked, before.trim(), PATIENCE);
    shell.must(&format!(
        "kubectl -n {NAMESPACE} rollout status {MANAGER} --timeout=180s"
    ));
}

/// Removes OLM v1's management of its objects, which keep working, and adds it again.
fn released_and_managed_again(shell: &Shell) {
    // The selector of the commands selects it.
    shell.must("kubectl -n olmv1-system wait --for=condition=Ready pod --selector=control-plane=operator-controller-controller-manager");
    uninstall::by_block(shell, uninstall::OLM_V1_RELEASED);
    // operator-controller runs again, and the garbage collector had time.
    thread::sleep(Duration::from_secs(30));
    operands::both_versions_answer(shell);
    shell.must("kubectl apply -f config/olm-v1/cluster_extension.yaml");
    installed(shell, NEXT);
    operands::both_versions_answer(shell);
}
