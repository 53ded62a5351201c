//! What is left when a ClusterServiceVersion is deleted, and the way to an earlier version by OLM:
//! the steps of docs/operations.md.

use std::thread;
use std::time::Duration;

use crate::node::{IMAGES, NAMESPACE, NEXT, Node};
use crate::operands;
use crate::shell::Shell;

const PAGE: &str = "docs/operations.md";
const LIMIT: Duration = Duration::from_secs(300);
const SUBSCRIPTION: &str =
    "kubectl patch --local -f config/olm/subscription.yaml -o yaml --type=merge";

/// Without care the original version loses fields; with the commands of the page it does not.
pub(crate) fn goes_back_to_an_earlier_version(node: &Node) {
    let shell = &node.shell;
    node.olm();
    shell.must("kubectl apply -k config/olm");
    succeeded(shell, "0.1.0");
    operands::samples_under_olm(shell);
    let before = operands::State::of(shell);

    without_the_commands(shell);
    shell.must("kubectl apply -k config/olm");
    succeeded(shell, "0.1.0");
    operands::both_versions_answer(shell);
    before.still_holds(shell);

    shell.must(&format!(
        "kubectl -n {NAMESPACE} patch catalogsource quartet-operator-catalog --type=merge \
         -p '{{\"spec\":{{\"image\":\"{IMAGES}-catalog:v{NEXT}\"}}}}'"
    ));
    succeeded(shell, NEXT);
    operands::both_versions_answer(shell);
    let before = operands::State::of(shell);
    with_the_commands(shell);
    before.still_holds(shell);

    operands::clean(shell);
    shell.must("kubectl delete -k config/olm --timeout=120s");
    shell.must("kubectl delete crd -l operators.coreos.com/quartet-operator.quartet-operator-system= --timeout=60s");
}

fn without_the_commands(shell: &Shell) {
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
    // OLM reports no error where one of them keeps its conversion webhook, as happened in one of
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
    shell.must("kubectl delete memcached loses --timeout=60s");
}

fn with_the_commands(shell: &Shell) {
    let commands = shell.must(&format!(
        "sed -n 's/^[$] \\(kubectl patch crd .*\\)/\\1/p' {PAGE}"
    ));
    assert_eq!(commands.lines().count(), 2, "{commands}");
    for command in commands.lines() {
        shell.must(command);
    }
    removed(shell, NEXT);
    for kind in ["memcacheds.v1alpha1.cache", "nginxes.v1alpha1.proxy"] {
        let refusal = shell.must_fail(&format!("kubectl get {kind}.example.com"));
        // kubectl's discovery is older, or newer.
        let is_gone = [
            "could not find the requested resource",
            "doesn't have a resource type",
        ];
        assert!(is_gone.iter().any(|it| refusal.contains(it)), "{refusal}");
    }
    shell.must("kubectl label memcacheds.v1.cache.example.com memcached-sample --overwrite without=a-manager");
    operands::answer(shell);

    shell.must(&format!(
        "{SUBSCRIPTION} -p '{{\"spec\":{{\"startingCSV\":\"quartet-operator.v0.1.0\",\
         \"installPlanApproval\":\"Manual\"}}}}' | kubectl apply -f -"
    ));
    let plan = format!(
        "kubectl -n {NAMESPACE} get installplan -o \
         jsonpath='{{.items[?(@.spec.approved==false)].metadata.name}}'"
    );
    shell.until(&format!("{plan} | wc -w"), "1", LIMIT);
    shell.must(&format!(
        "kubectl -n {NAMESPACE} patch installplan $({plan}) --type=merge -p '{{\"spec\":{{\"approved\":true}}}}'"
    ));
    succeeded(shell, "0.1.0");
    operands::both_versions_answer(shell);
}

/// The Subscription and the ClusterServiceVersion are deleted, and the manager is gone.
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

fn succeeded(shell: &Shell, version: &str) {
    shell.until(
        &format!(
            "kubectl -n {NAMESPACE} get csv quartet-operator.v{version} -o jsonpath='{{.status.phase}}'"
        ),
        "Succeeded",
        LIMIT,
    );
}
