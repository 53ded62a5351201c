//! The chart, installed, upgraded, rolled back and uninstalled under traffic.

use crate::calls::Calls;
use crate::cert_manager::trusted;
use crate::node::{NAMESPACE, NEXT, Node};
use crate::operands;
use crate::shell::Shell;
use crate::uninstall::{self, Before};

/// With the manager's own certificates, then with those of cert-manager.
pub(crate) fn installs_upgrades_rolls_back_and_uninstalls(node: &Node) {
    node.cert_manager();
    node.shell.must(&format!(
        "make helm-chart VERSION={NEXT} CHART_DIR=target/e2e/chart"
    ));
    for mode in ["self-managed", "cert-manager"] {
        lifecycle(node, mode);
    }
}

/// With the manager's own certificates.
pub(crate) fn install(node: &Node) {
    helm(
        &node.shell,
        &format!(
            "install quartet dist/chart -n {NAMESPACE} --create-namespace --wait --timeout 3m"
        ),
    );
}

fn lifecycle(node: &Node, mode: &str) {
    let shell = &node.shell;
    let installed = Before::installation(shell);
    let flags = format!("-n {NAMESPACE} --set certificates.mode={mode} --wait --timeout 3m");
    helm(
        shell,
        &format!("install quartet dist/chart --create-namespace {flags}"),
    );
    trusted(shell);
    operands::samples(shell);
    operands::answer(shell);
    operands::rejected_and_converted(shell);

    let before = operands::State::of(shell);
    let calls = Calls::start(&node.cluster.kubeconfig());
    helm(shell, &format!("upgrade quartet target/e2e/chart {flags}"));
    runs(shell, NEXT);
    helm(
        shell,
        &format!("rollback quartet -n {NAMESPACE} --wait --timeout 3m"),
    );
    runs(shell, "0.1.0");
    for (sort, tally) in calls.stop() {
        assert_eq!(tally.failed, 0, "{mode}: {sort:?}");
    }
    before.assert_unchanged(shell);

    // Resources that the chart keeps work without a manager, and with the next release.
    uninstall::by_block(shell, uninstall::HELM_RELEASE);
    before.assert_unchanged(shell);
    helm(shell, &format!("install quartet dist/chart {flags}"));
    trusted(shell);
    before.assert_unchanged(shell);

    operands::clean(shell);
    uninstall::by_block(shell, uninstall::HELM_RELEASE);
    uninstall::by_block(shell, uninstall::HELM_REST);
    installed.nothing_left(shell);
}

fn helm(shell: &Shell, arguments: &str) {
    shell.must(&format!("{} helm {arguments}", Node::helm()));
}

/// All replicas have this version, and no others exist.
fn runs(shell: &Shell, version: &str) {
    let images = shell.must(&format!(
        "kubectl -n {NAMESPACE} get pods -l control-plane=controller-manager -o go-template=\
         '{{{{range .items}}}}{{{{if not .metadata.deletionTimestamp}}}}\
         {{{{(index .spec.containers 0).image}}}}{{{{\"\\n\"}}}}{{{{end}}}}{{{{end}}}}'"
    ));
    let images: Vec<_> = images.lines().collect();
    assert_eq!(images.len(), 2, "{images:?}");
    for image in images {
        assert!(image.ends_with(&format!(":v{version}")), "{image}");
    }
}
