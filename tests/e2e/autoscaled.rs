//! A HorizontalPodAutoscaler with the CPU of real pods, measured by metrics-server.

use std::time::Duration;

use crate::load::Load;
use crate::node::Node;
use crate::plain;
use crate::uninstall::{self, Before};

const SAMPLE: &str = "config/samples/features/horizontal-pod-autoscaler.yaml";
const MANIFEST: &str = "hack/e2e/manifests/metrics-server.yaml";
const LIMIT: Duration = Duration::from_secs(180);

/// Applies the sample with a low target and short windows: more pods under load, fewer without, the
/// operator does not revert the autoscaler's changes, and every request is answered.
pub(crate) fn scales_with_the_load(node: &Node) {
    let shell = &node.shell;
    let before = Before::installation(shell);
    shell.must(&format!("kubectl apply -f {MANIFEST}"));
    shell.must(
        "kubectl wait --for=condition=Available apiservice v1beta1.metrics.k8s.io --timeout=120s",
    );
    plain::install(node);
    let replicas =
        "kubectl get nginx autoscaled -o jsonpath='{.spec.replicas} {.status.readyReplicas}'";
    let deployed = "kubectl get deployment autoscaled -o jsonpath='{.spec.replicas}'";
    shell.must(&format!("kubectl apply -f {SAMPLE}"));
    shell.must(
        "kubectl patch hpa autoscaled --type=json -p '[\
         {\"op\":\"replace\",\"path\":\"/spec/metrics/0/resource/target/averageUtilization\",\"value\":10},\
         {\"op\":\"add\",\"path\":\"/spec/behavior\",\"value\":{\"scaleDown\":{\"stabilizationWindowSeconds\":0}}}]'",
    );
    shell.until(replicas, "2 2", LIMIT);
    shell.until(
        "kubectl get hpa autoscaled -o jsonpath='{.status.conditions[?(@.type==\"ScalingActive\")].status}'",
        "True",
        LIMIT,
    );

    let address = shell.must(
        "kubectl get service autoscaled -o jsonpath='{.spec.clusterIP}:{.spec.ports[0].port}'",
    );
    let load = Load::start(address.trim().parse().expect("an address"));
    shell.until(replicas, "5 5", LIMIT);
    // The file sets no replicas: applying it again does not reset them.
    shell.must(&format!("sed '/^---/,$d' {SAMPLE} | kubectl apply -f -"));
    assert_eq!(shell.must(deployed), "5");
    let requests = load.stop();
    assert!(
        requests.answered > 1000,
        "{requests:?}: the tested situation occurred"
    );
    assert!(requests.lost.is_empty(), "{requests:?}");
    shell.until(replicas, "2 2", LIMIT);
    assert_eq!(shell.must(deployed), "2");

    shell.must(&format!("kubectl delete -f {SAMPLE} --timeout=60s"));
    uninstall::by_row(shell, uninstall::ONE_FILE);
    shell.must(&format!("kubectl delete -f {MANIFEST} --timeout=60s"));
    before.nothing_left(shell);
}
