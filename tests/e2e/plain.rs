//! Installation without OLM, and outages.

use std::thread;
use std::time::Duration;

use devcluster::Component;

use crate::calls::Calls;
use crate::node::{NAMESPACE, NEXT, Node};
use crate::operands;
use crate::shell::Shell;
use crate::uninstall::{self, Before};

pub(crate) const MANAGER: &str = "deployment/quartet-operator-controller-manager";

/// `dist/install.yaml`: one file, two replicas, certificates by the manager, in a namespace that
/// enforces the Pod Security Standard *restricted*.
pub(crate) fn installed_from_one_file(node: &Node) {
    let shell = &node.shell;
    let before = Before::installation(shell);
    install(node);
    uninstall::by_row(shell, uninstall::ONE_FILE);
    before.nothing_left(shell);

    install(node);
    let enforced = shell.must(&format!(
        "kubectl get namespace {NAMESPACE} -o jsonpath='{{.metadata.labels.pod-security\\.kubernetes\\.io/enforce}}'"
    ));
    assert_eq!(enforced.trim(), "restricted");

    operands::samples(shell);
    operands::answer(shell);
    operands::rejected_and_converted(shell);
    restricted_and_baseline(node);
    operands::scaled_under_load(shell);
    certificate_rotated(node);
    leader_deleted(node);
    node_and_server_restarted(node);
    webhooks_down(node);

    operands::clean(shell);
    shell.must(&format!(
        "make build-installer VERSION={NEXT} INSTALLER_DIR=target/e2e/dist && \
         kubectl apply --server-side -f target/e2e/dist/install.yaml"
    ));
    rolled_out(shell);
    uninstall::by_row(shell, uninstall::ONE_FILE);
    before.nothing_left(shell);
}

/// Installs `dist/install.yaml` and waits until both replicas serve.
pub(crate) fn install(node: &Node) {
    node.shell
        .must("kubectl apply --server-side -f dist/install.yaml");
    rolled_out(&node.shell);
}

/// The same with `make deploy`.
pub(crate) fn deploy(node: &Node) {
    node.shell.must("make deploy");
    rolled_out(&node.shell);
}

pub(crate) fn rolled_out(shell: &Shell) {
    shell.must(&format!(
        "kubectl -n {NAMESPACE} rollout status {MANAGER} --timeout=120s"
    ));
}

/// `make deploy` and `make undeploy`, which change no tracked file.
pub(crate) fn deployed_and_undeployed(node: &Node) {
    let shell = &node.shell;
    let tracked = shell.must("git status --porcelain");
    let before = Before::installation(shell);
    deploy(node);
    shell.must("kubectl apply -f config/samples/cache_v1alpha1_memcached.yaml");
    shell.must("kubectl wait memcached --all --for=condition=Ready --timeout=60s");
    uninstall::by_row(shell, uninstall::DEPLOY);
    before.nothing_left(shell);
    deploy(node);
    shell.must(&format!("make deploy VERSION={NEXT}"));
    rolled_out(shell);
    uninstall::by_row(shell, uninstall::DEPLOY);
    before.nothing_left(shell);
    assert_eq!(shell.must("git status --porcelain"), tracked);
}

/// The operands' pods are admitted under the Pod Security Standards that they promise.
fn restricted_and_baseline(node: &Node) {
    let shell = &node.shell;
    for (level, samples) in [
        (
            "restricted",
            "cache_v1alpha1_memcached proxy_v1alpha1_nginx test_v1alpha1_helloworld",
        ),
        ("baseline", "elasticweb_v1_elasticweb"),
    ] {
        shell.must(&format!(
            "kubectl create namespace {level} && \
             kubectl label namespace {level} pod-security.kubernetes.io/enforce={level}"
        ));
        for sample in samples.split_whitespace() {
            // One NodePort is in use already.
            shell.must(&format!(
                "sed 's/30003/30005/' config/samples/{sample}.yaml | kubectl apply -n {level} -f -"
            ));
        }
        shell.must(&format!(
            "kubectl wait -n {level} quartet --all --for=condition=Ready --timeout=120s"
        ));
        shell.must(&format!("kubectl delete namespace {level} --timeout=120s"));
    }
}

/// A new authority and a new certificate; no call fails.
fn certificate_rotated(node: &Node) {
    let shell = &node.shell;
    let secret = format!("-n {NAMESPACE} secret quartet-operator-webhook-server-cert");
    let served = format!("kubectl get {secret} -o jsonpath='{{.data.tls\\.crt}}'");
    let coming = format!("kubectl get {secret} -o jsonpath='{{.data.next-tls\\.crt}}'");
    let before = shell.must(&served);
    let calls = Calls::start(&node.cluster.kubeconfig());
    shell.must(&format!("kubectl delete {secret}"));
    shell.until(
        &format!(
            "served=$({served}) && coming=$({coming}) && [ -n \"$served\" ] && \
             [ \"$served\" != '{before}' ] && [ -z \"$coming\" ] && echo rotated"
        ),
        "rotated",
        Duration::from_secs(300),
    );
    // By then every replica serves it.
    thread::sleep(Duration::from_secs(15));
    for (sort, tally) in calls.stop() {
        assert_eq!(tally.failed, 0, "{sort:?}");
    }
}

fn leader_deleted(node: &Node) {
    let shell = &node.shell;
    let holder = format!(
        "kubectl -n {NAMESPACE} get lease quartet-operator.example.com -o jsonpath='{{.spec.holderIdentity}}'"
    );
    let leader = shell.must(&holder);
    let pod = leader.split('_').next().unwrap_or_default();
    shell.must(&format!(
        "kubectl -n {NAMESPACE} delete pod {pod} --wait=false"
    ));
    shell.must("kubectl scale memcached memcached-sample --replicas=4");
    shell.must("kubectl wait memcached/memcached-sample --for=jsonpath='{.status.readyReplicas}'=4 --timeout=90s");
    assert_ne!(shell.must(&holder), leader, "another leads");
    rolled_out(shell);
}

fn node_and_server_restarted(node: &Node) {
    let shell = &node.shell;
    let pods = operands::pods(shell);
    for component in [Component::Kubelet, Component::ApiServer] {
        node.cluster
            .restart(component)
            .unwrap_or_else(|error| panic!("{component:?}: {error}"));
        shell.must("kubectl wait --for=condition=Ready nodes --all --timeout=90s");
    }
    operands::answer_after_scaling(shell);
    let found = operands::pods(shell);
    assert_eq!(found, pods, "no pod of an operand was restarted");
}

/// Both replicas are gone: running operands continue, new resources are rejected with a reason, and
/// everything recovers without intervention.
fn webhooks_down(node: &Node) {
    let shell = &node.shell;
    let pods = operands::pods(shell);
    shell.must(&format!(
        "kubectl -n {NAMESPACE} scale {MANAGER} --replicas=0"
    ));
    shell.until(
        &format!("kubectl -n {NAMESPACE} get pods -o name | wc -l"),
        "0",
        Duration::from_secs(90),
    );
    let refusal = shell.must_fail(
        "sed 's/memcached-sample/another/' config/samples/cache_v1alpha1_memcached.yaml | kubectl apply -f -",
    );
    assert!(refusal.contains("webhook"), "{refusal}");
    // A minute, in which any controller could act.
    thread::sleep(Duration::from_secs(60));
    operands::answer_after_scaling(shell);
    assert_eq!(operands::pods(shell), pods, "no pod was changed");
    shell.must(&format!(
        "kubectl -n {NAMESPACE} scale {MANAGER} --replicas=2"
    ));
    rolled_out(shell);
    shell.must(
        "sed 's/memcached-sample/another/' config/samples/cache_v1alpha1_memcached.yaml | kubectl apply -f -",
    );
    shell.must("kubectl wait memcached/another --for=condition=Ready --timeout=120s");
    // Usually within a second or two; if not, this shows why.
    shell.show(&format!(
        "kubectl logs -n {NAMESPACE} --tail=30 --prefix -l control-plane=controller-manager"
    ));
}
