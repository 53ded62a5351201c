//! Installation by OLM as catalog sites propose it: a catalog for all namespaces, a Subscription in
//! `operators`, and upgrades when the catalog's tag moves.

use std::time::{Duration, Instant};

use crate::node::{NEXT, Node};
use crate::operands;
use crate::uninstall::{self, Before};

/// The polling interval of the catalog's tag, and the most time for an upgrade including it.
const POLL: &str = "30s";
const UPGRADED: Duration = Duration::from_secs(300);

/// The objects of `config/olm`, in the namespaces that a catalog site uses.
const CATALOG: &str =
    "kubectl patch --local -f config/olm/catalog_source.yaml -o yaml --type=merge";
const SUBSCRIPTION: &str = "kubectl patch --local -f config/olm/subscription.yaml -o yaml --type=merge \
     -p '{\"metadata\":{\"namespace\":\"operators\"},\"spec\":{\"sourceNamespace\":\"olm\"}}'";

/// The namespaces of the webhook Services in the CRDs and the webhook configurations, each once.
const CONVERTED: &str = "kubectl get crd -l operators.coreos.com/quartet-operator.operators \
     -o jsonpath='{range .items[*]}{.spec.conversion.webhook.clientConfig.service.namespace}{\"\\n\"}{end}' | sort | uniq -c";
const VALIDATED: &str = "kubectl get validatingwebhookconfigurations -l olm.owner.namespace=operators \
     -o jsonpath='{range .items[*]}{range .webhooks[*]}{.clientConfig.service.namespace}{\"\\n\"}{end}{end}' | sort -u";

/// The bundle's CRDs name the default namespace; OLM replaces it by its own. Pushing a newer
/// catalog under the same tag is enough for an upgrade.
pub(crate) fn in_the_namespace_of_a_hub(node: &Node) {
    let shell = &node.shell;
    node.olm();
    let before_it = Before::installation(shell);
    subscribe(node);
    // The document: OLM may execute the InstallPlan once more.
    std::thread::sleep(Duration::from_secs(15));
    uninstall::by_block(shell, uninstall::CATALOG_ELSEWHERE);
    before_it.nothing_left(shell);

    subscribe(node);
    registered_there(node);
    operands::samples_under_olm(shell);
    operands::answer(shell);
    operands::rejected_and_converted(shell);

    let before = operands::State::of(shell);
    shell.must(&format!("make catalog-push-following VERSION={NEXT}"));
    let pushed = Instant::now();
    shell.until(
        &format!("kubectl -n operators get csv quartet-operator.v{NEXT} -o name | wc -l"),
        "1",
        UPGRADED,
    );
    println!(
        "OLM has the newer catalog {:.1} s after it was pushed, with an interval of {POLL}",
        pushed.elapsed().as_secs_f32()
    );
    succeeded(node, NEXT);
    println!(
        "the upgrade is done {:.1} s after the push",
        pushed.elapsed().as_secs_f32()
    );
    registered_there(node);
    operands::both_versions_answer(shell);
    before.assert_unchanged(shell);

    operands::clean(shell);
    uninstall::by_block(shell, uninstall::CATALOG_ELSEWHERE);
    before_it.nothing_left(shell);
    // Restores the tag for the next test.
    shell.must("make catalog-push-following");
}

fn subscribe(node: &Node) {
    let shell = &node.shell;
    shell.must(&format!(
        "{CATALOG} -p '{{\"metadata\":{{\"namespace\":\"olm\"}},\
         \"spec\":{{\"updateStrategy\":{{\"registryPoll\":{{\"interval\":\"{POLL}\"}}}}}}}}' | \
         kubectl apply -f -"
    ));
    shell.must(&format!("{SUBSCRIPTION} | kubectl apply -f -"));
    succeeded(node, "0.1.0");
}

/// All four CRDs convert in that namespace, and all validating webhooks are called there.
fn registered_there(node: &Node) {
    let limit = Duration::from_secs(60);
    node.shell.until(CONVERTED, "4 operators", limit);
    node.shell.until(VALIDATED, "operators", limit);
}

fn succeeded(node: &Node, version: &str) {
    node.shell.until(
        &format!(
            "kubectl -n operators get csv quartet-operator.v{version} -o jsonpath='{{.status.phase}}'"
        ),
        "Succeeded",
        UPGRADED,
    );
}
