//! Whole programs of others on the node: the scripts of `tests/programs`.

use crate::node::Node;
use crate::plain;
use crate::uninstall::{self, Before};

pub(crate) fn flux(node: &Node) {
    run(node, "flux");
}

pub(crate) fn velero(node: &Node) {
    run(node, "velero");
}

fn run(node: &Node, program: &str) {
    let shell = &node.shell;
    let before = Before::installation(shell);
    plain::install(node);
    shell.must("kubectl create namespace shop && kubectl create namespace users");
    shell.must(&format!(
        "NAMESPACE=shop OTHER=users PORTS='18081 18082 18083' bash -c 'set -x; . tests/programs/{program}.sh'"
    ));
    shell.must("kubectl delete namespace shop users --ignore-not-found");
    uninstall::by_row(shell, uninstall::ONE_FILE);
    before.nothing_left(shell);
}
