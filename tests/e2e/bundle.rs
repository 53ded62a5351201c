//! Installation by OLM, with `operator-sdk run bundle` and from a catalog.

use std::thread;
use std::time::Duration;

use crate::calls::{Calls, Sort};
use crate::node::{IMAGES, NAMESPACE, NEXT, Node};
use crate::operands;
use crate::shell::Shell;
use crate::uninstall::{self, Before};

/// `USE_IMAGE_DIGESTS=true`: every tag is replaced by its current digest in the registry.
pub(crate) fn images_by_digest_when_asked(node: &Node) {
    let shell = &node.shell;
    shell.must("make bundle USE_IMAGE_DIGESTS=true BUNDLE_DIR=target/e2e/digests/bundle");
    let images = shell.must(
        "grep -oE '(docker.io|ghcr.io)/[^ \"]+' \
         target/e2e/digests/bundle/manifests/quartet-operator.clusterserviceversion.yaml | sort -u",
    );
    // The manager's, and those of memcached and nginx.
    let digests = images
        .lines()
        .filter(|image| image.contains("@sha256:"))
        .count();
    assert_eq!(digests, 3, "{images}");
}

/// An emulator is not needed: no program of the other processor runs.
pub(crate) fn is_for_two_processors(node: &Node) {
    node.shell.must("hack/e2e/platforms.sh");
}

/// Installs from a bundle image, uses, scores, upgrades, removes and installs again.
pub(crate) fn run_bundle_uses_upgrades_and_cleans_up(node: &Node) {
    let shell = &node.shell;
    let tools = Node::tools();
    node.olm();
    let before_it = Before::installation(shell);
    namespace(node, "baseline");
    shell.must(&format!(
        "{tools} operator-sdk run bundle {IMAGES}-bundle:v0.1.0 -n {NAMESPACE} --timeout 5m"
    ));
    operands::samples_under_olm(shell);
    operands::answer(shell);
    operands::rejected_and_converted(shell);
    certificate_rotated(node);

    // The images with which scorecard unpacks and keeps results are pinned by digest.
    shell.must("kubectl create namespace scorecard");
    let scorecard = shell.must(
        "make -s scorecard SCORECARD_FLAGS='--namespace=scorecard --wait-time=120s --output=json \
         --untar-image=registry.test/base/busybox:1 --storage-image=registry.test/base/busybox:1'",
    );
    let found = scorecard.matches("\"state\": \"pass\"").count();
    assert_eq!(found, 6, "{scorecard}");

    shell.must("kubectl delete namespace scorecard --timeout=60s");

    let before = operands::State::of(shell);
    shell.must(&format!(
        "{tools} operator-sdk run bundle-upgrade {IMAGES}-bundle:v{NEXT} -n {NAMESPACE} --timeout 5m"
    ));
    before.assert_unchanged(shell);

    operands::clean(shell);
    uninstall::by_block(shell, uninstall::BUNDLE);
    before_it.nothing_left(shell);
    namespace(node, "baseline");
    shell.must(&format!(
        "{tools} operator-sdk run bundle {IMAGES}-bundle:v0.1.0 -n {NAMESPACE} --timeout 5m"
    ));
    operands::samples_under_olm(shell);
    operands::clean(shell);
    uninstall::by_block(shell, uninstall::BUNDLE);
    before_it.nothing_left(shell);
}

/// The longest time that calls in the version that is not stored failed on a small node while OLM
/// upgraded: docs/operations.md.
const FAILING_FOR: Duration = Duration::from_secs(43);

/// As from OperatorHub: a catalog, a subscription with automatic approval, and an upgrade with a
/// newer catalog. The namespace enforces *restricted*.
pub(crate) fn catalog_installs_and_upgrades(node: &Node) {
    let shell = &node.shell;
    node.olm();
    let before_it = Before::installation(shell);
    shell.must("kubectl apply -k config/olm");
    succeeded(node, "0.1.0");
    operands::samples_under_olm(shell);
    operands::rejected_and_converted(shell);

    let before = operands::State::of(shell);
    let calls = Calls::start(&node.cluster.kubeconfig());
    shell.must(&format!(
        "kubectl -n {NAMESPACE} patch catalogsource quartet-operator-catalog --type=merge \
         -p '{{\"spec\":{{\"image\":\"{IMAGES}-catalog:v{NEXT}\"}}}}'"
    ));
    succeeded(node, NEXT);
    // OLM keeps writing caBundles for about ten seconds.
    thread::sleep(Duration::from_secs(20));
    // Reads in the stored version succeed. Other calls fail closed: OLM replaces the CRDs by those
    // of the bundle, without a caBundle, and later creates a certificate authority other than that
    // of the running pods.
    let tallies = calls.stop();
    assert_eq!(tallies[&Sort::ReadStored].failed, 0);
    for (sort, tally) in &tallies {
        assert!(tally.failing_for < 2 * FAILING_FOR, "{sort:?}");
    }
    before.assert_unchanged(shell);

    operands::clean(shell);
    uninstall::by_block(shell, uninstall::CATALOG);
    before_it.nothing_left(shell);
    install_from_catalog(node);
    uninstall::by_block(shell, uninstall::CATALOG);
    before_it.nothing_left(shell);
}

/// Installs from a catalog whose content OLM may have kept from an earlier installation, as
/// docs/troubleshooting.md has it: the Subscription follows when OLM has read the catalog.
pub(crate) fn install_from_catalog(node: &Node) {
    let shell = &node.shell;
    shell.must("kubectl apply -f config/olm/namespace.yaml -f config/olm/catalog_source.yaml");
    catalog_is_read(shell);
    shell.must("kubectl apply -k config/olm");
    succeeded(node, "0.1.0");
}

pub(crate) fn catalog_is_read(shell: &Shell) {
    shell.must("kubectl -n quartet-operator-system wait --for=jsonpath='{.status.connectionState.lastObservedState}'=READY --timeout=5m catalogsource/quartet-operator-catalog");
}

/// OLM creates a new authority and certificate when its Secret is deleted, as it does before they
/// expire, and rolls the manager out with them.
fn certificate_rotated(node: &Node) {
    let shell = &node.shell;
    let before = operands::State::of(shell);
    let secret = format!("-n {NAMESPACE} secret quartet-operator-controller-manager-service-cert");
    let certificate = format!("kubectl get {secret} -o jsonpath='{{.data.tls\\.crt}}'");
    let old = shell.must(&certificate);
    shell.must(&format!("kubectl delete {secret}"));
    shell.until(
        &format!("new=$({certificate}) && [ \"$new\" != '{old}' ] && echo another"),
        "another",
        Duration::from_secs(300),
    );
    succeeded(node, "0.1.0");
    before.assert_unchanged(shell);
    operands::both_versions_answer(shell);
}

fn succeeded(node: &Node, version: &str) {
    node.shell.until(
        &format!(
            "kubectl -n {NAMESPACE} get csv quartet-operator.v{version} -o jsonpath='{{.status.phase}}'"
        ),
        "Succeeded",
        Duration::from_secs(300),
    );
}

fn namespace(node: &Node, level: &str) {
    node.shell.must(&format!(
        "kubectl create namespace {NAMESPACE} && \
         kubectl label namespace {NAMESPACE} pod-security.kubernetes.io/enforce={level}"
    ));
}
