//! No order of deletion leaves anything stuck.

use crate::node::Node;
use crate::plain;
use crate::uninstall::Before;

/// What users delete, in any order: the resources with their namespace, the CRDs, and the operator
/// with its webhooks.
const PARTS: [(&str, &str); 3] = [
    ("resources", "kubectl delete namespace users --timeout=120s"),
    (
        "definitions",
        "kubectl get crd -o name | grep -E 'example.com|jiaozi.com' | xargs kubectl delete --timeout=120s",
    ),
    (
        "operator",
        "kubectl delete namespace quartet-operator-system --timeout=120s",
    ),
];

const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// Creates all resources of both versions in a namespace, then deletes each part and waits for it,
/// in every order.
pub(crate) fn in_every_order(node: &Node) {
    let shell = &node.shell;
    let before = Before::installation(shell);
    for order in ORDERS {
        let parts = order.map(|part| PARTS[part]);
        println!("## {}", parts.map(|(name, _)| name).join(", then "));
        plain::install(node);
        shell.must("kubectl create namespace users");
        shell.must("ls config/samples/*_*_*.yaml | xargs -n 1 kubectl apply -n users -f");
        shell.must("kubectl wait -n users quartet --all --for=condition=Ready --timeout=120s");
        for (_, delete) in parts {
            shell.must(delete);
        }
        shell.must("kubectl delete -f dist/install.yaml --ignore-not-found --timeout=120s");
        before.nothing_left(shell);
    }
}
