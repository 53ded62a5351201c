//! The state after the deletion of a ClusterServiceVersion, as docs/operations.md describes it, and
//! the recovery without OLM.

use std::thread;
use std::time::Duration;

use crate::bundle;
use crate::node::{NAMESPACE, Node};
use crate::operands;
use crate::plain;
use crate::shell::Shell;
use crate::uninstall::{self, Before};

const LIMIT: Duration = Duration::from_secs(300);

/// The original version loses fields; everything else is kept, and applying one file serves that
/// version again. OLM itself does not recover reliably: in two of four tries the InstallPlan
/// failed, because it lists the resources through conversion webhooks that it has just configured
/// and that are not served yet.
pub(crate) fn leaves_the_resources(node: &Node) {
    let shell = &node.shell;
    node.olm();
    let before_it = Before::installation(shell);
    bundle::install_from_catalog(node);
    operands::samples_under_olm(shell);
    let before = operands::State::of(shell);

    fields_are_lost(shell);
    let deleted = shell.must("kubectl delete -k config/olm --ignore-not-found --timeout=120s");
    for rest in ["namespace", "operatorgroup", "catalogsource"] {
        assert!(deleted.contains(rest), "{deleted}");
    }
    shell.must("kubectl apply --server-side --force-conflicts -f dist/install.yaml");
    shell.must(&format!(
        "kubectl -n {NAMESPACE} rollout status {} --timeout=120s",
        plain::MANAGER
    ));
    operands::both_versions_answer(shell);
    before.assert_unchanged(shell);

    operands::clean(shell);
    uninstall::by_row(shell, uninstall::ONE_FILE);
    shell.must("kubectl delete operator quartet-operator.quartet-operator-system");
    shell.must("kubectl -n kube-system delete rolebinding quartet-operator-controller-manager-service-auth-reader");
    before_it.nothing_left(shell);
}

fn fields_are_lost(shell: &Shell) {
    let (hub, spoke) = (
        "memcacheds.v1.cache.example.com",
        "memcacheds.v1alpha1.cache.example.com",
    );
    shell.must(
        "kubectl apply -f - <<<'{\"apiVersion\":\"cache.example.com/v1\",\"kind\":\"Memcached\",\
         \"metadata\":{\"name\":\"loses\"},\"spec\":{\"replicas\":1,\"memory\":128}}'",
    );
    shell.must("kubectl wait memcached/loses --for=condition=Ready --timeout=120s");
    removed(shell, "0.1.0");
    // OLM reports no error if one of the CRDs keeps its conversion webhook, as happened in one of
    // three runs.
    thread::sleep(Duration::from_secs(15));
    shell.show(
        "kubectl get crd -l operators.coreos.com/quartet-operator.quartet-operator-system= \
         -o jsonpath='{range .items[*]}{.metadata.name} {.spec.conversion.strategy}{\"\\n\"}{end}'",
    );
    let strategy = shell.must(
        "kubectl get crd memcacheds.cache.example.com -o jsonpath='{.spec.conversion.strategy}'",
    );
    let memory = format!("kubectl get {hub} loses -o jsonpath='{{.spec.memory}}'");
    shell.until(&memory, "128", LIMIT);
    operands::answer(shell);
    if strategy == "None" {
        let size = format!("kubectl get {spoke} loses -o jsonpath='{{.spec.size}}'");
        shell.until(&size, "", LIMIT);
        shell.must(&format!(
            "kubectl get {spoke} loses -o json | kubectl replace -f -"
        ));
        shell.until(&memory, "", LIMIT);
    } else {
        let refusal = shell.must_fail(&format!("kubectl get {spoke} loses"));
        assert!(refusal.contains("conversion webhook"), "{refusal}");
    }
    shell.must("kubectl delete memcached loses --cascade=foreground --timeout=60s");
    let pods = "kubectl get pods -l app.kubernetes.io/instance=loses -o name | wc -l";
    shell.until(pods, "0", LIMIT);
}

/// Deletes the Subscription and the ClusterServiceVersion and waits until the manager is gone.
fn removed(shell: &Shell, version: &str) {
    shell.must(&format!(
        "kubectl -n {NAMESPACE} delete subscription quartet-operator --timeout=60s && \
         kubectl -n {NAMESPACE} delete csv quartet-operator.v{version} --timeout=120s"
    ));
    shell.until(
        &format!(
            "kubectl -n {NAMESPACE} get pods -l control-plane=controller-manager -o name | wc -l"
        ),
        "0",
        LIMIT,
    );
}
