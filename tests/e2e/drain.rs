//! A PodDisruptionBudget and `kubectl drain`, and a random user id as OpenShift assigns one to the manager.

use std::thread;
use std::time::Duration;

use crate::calls::Calls;
use crate::node::{NAMESPACE, Node};
use crate::operands;
use crate::plain::{self, MANAGER};
use crate::traffic::{Endpoints, Traffic};
use crate::uninstall::{self, Before};

const LIMIT: Duration = Duration::from_secs(180);

/// The node has no other to move pods to: after the first eviction the drain waits until the node takes pods
/// again. Meanwhile all but one pod serve.
pub(crate) fn evicts_one_pod_at_a_time(node: &Node) {
    let shell = &node.shell;
    let before = Before::installation(shell);
    plain::install(node);
    shell.must(&format!(
        "kubectl -n {NAMESPACE} patch {MANAGER} --type=merge -p '{{\"spec\":{{\"template\":{{\"spec\":\
         {{\"securityContext\":{{\"runAsUser\":1000680000,\"runAsGroup\":0}}}}}}}}}}'"
    ));
    plain::rolled_out(shell);
    operands::samples(shell);
    // The sample of the feature, for a kind that answers requests of a page.
    let sample = "sed -e 's/cache.example.com/proxy.example.com/' -e 's/kind: Memcached/kind: Nginx/' \
                  -e 's/memcached$/nginx/' -e 's/  replicas: 3/&\\n  service: {}/' \
                  config/samples/features/pod-disruption-budget.yaml";
    shell.must(&format!("{sample} | kubectl apply -f -"));
    let replicas = "kubectl get nginx guarded -o jsonpath='{.status.replicas} {.status.readyReplicas} {.status.conditions[?(@.type==\"Ready\")].status}'";
    shell.until(replicas, "3 3 True", LIMIT);
    let allowed = "kubectl get pdb guarded -o jsonpath='{.status.disruptionsAllowed}'";
    shell.until(allowed, "1", LIMIT);
    let names = "kubectl get pods -l app.kubernetes.io/instance=guarded -o name && \
                 kubectl -n quartet-operator-system get pods -o name";
    let drained = shell.must(names);
    let address = shell.must("kubectl get service guarded -o jsonpath='{.spec.clusterIP}'");
    let traffic = Traffic::begin(address.trim(), 80);
    let endpoints = Endpoints::watch(shell, "default", "guarded");
    let calls = Calls::start(&node.cluster.kubeconfig());

    let name = shell.must("kubectl get nodes -o jsonpath='{.items[0].metadata.name}'");
    let mut drain = shell.begin(&format!(
        "kubectl drain {name} --ignore-daemonsets --delete-emptydir-data --force --timeout=300s"
    ));
    shell.until(replicas, "3 2 False", LIMIT);
    // A drain tries again every 5 s.
    thread::sleep(Duration::from_secs(15));
    shell.until(replicas, "3 2 False", Duration::ZERO);
    let ready =
        format!("kubectl -n {NAMESPACE} get {MANAGER} -o jsonpath='{{.status.readyReplicas}}'");
    shell.until(&ready, "1", Duration::ZERO);
    shell.must(&format!("kubectl uncordon {name}"));
    assert!(drain.wait().expect("it ends").success(), "the drain");
    shell.until(replicas, "3 3 True", LIMIT);
    plain::rolled_out(shell);

    let served = traffic.end();
    assert!(
        served.answers > 100 && served.silence < Duration::from_secs(2),
        "{served:?}"
    );
    assert!(endpoints.fewest() >= 2);
    for (sort, tally) in calls.stop() {
        assert_eq!(tally.failed, 0, "{sort:?}");
    }
    let now = shell.must(names);
    let stayed = drained.lines().find(|pod| now.contains(pod));
    assert_eq!(stayed, None, "{now}");

    shell.must(&format!("{sample} | kubectl delete -f - --timeout=60s"));
    operands::clean(shell);
    uninstall::by_row(shell, uninstall::ONE_FILE);
    before.nothing_left(shell);
}
