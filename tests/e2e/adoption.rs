//! Migration from the four original operators, as in docs/migrating.md: their CRDs, resources,
//! Deployments and Services as they were left, under traffic; then our operator, and the resulting
//! state. The commands are those of the document.

use std::time::Duration;

use crate::node::{NAMESPACE, Node};
use crate::operands;
use crate::predecessors::{Asked, NODE, World, pods};
use crate::shell::Shell;
use crate::uninstall::{self, Before};
use testkit::original_operators::assert_adopted;

/// Installation from one file; then back to the original operators, and forth again.
pub(crate) fn by_one_file(node: &Node) {
    let shell = &node.shell;
    let before = Before::installation(shell);
    let world = World::leave(shell);
    let traffic = world.ask(shell);
    stop_and_hold_back(shell);
    shell.must("kubectl apply --server-side --force-conflicts -f dist/install.yaml");
    shell.must(
        "kubectl -n quartet-operator-system rollout status deployment/quartet-operator-controller-manager --timeout=120s",
    );
    world.assert_adoption(shell, traffic);
    back_and_forth(shell);
    a_selector_of_our_own(shell);
    world.clean(shell);
    uninstall::by_row(shell, uninstall::ONE_FILE);
    before.nothing_left(shell);
}

/// Installation by OLM on CRDs that it has not created.
pub(crate) fn under_olm(node: &Node) {
    let shell = &node.shell;
    node.olm();
    let before = Before::installation(shell);
    let world = World::leave(shell);
    let traffic = world.ask(shell);
    stop_and_hold_back(shell);
    shell.must("kubectl create namespace quartet-operator-system");
    shell.must(&format!(
        "{} \
         operator-sdk run bundle ghcr.io/quartet-operator/quartet-operator-bundle:v0.1.0 -n quartet-operator-system --timeout 5m",
        Node::tools()
    ));
    // OLM writes the caBundles once more, about ten seconds after Succeeded.
    shell.until(
        "kubectl get memcached,nginx,elasticweb,helloworld -A -o name | wc -l",
        "5",
        Duration::from_secs(60),
    );
    world.assert_adoption(shell, traffic);
    world.clean(shell);
    uninstall::by_block(shell, uninstall::BUNDLE);
    before.nothing_left(shell);
}

impl World {
    /// The steps of docs/migrating.md after the installation, and their results.
    fn assert_adoption(&self, shell: &Shell, asked: Asked) {
        shell.must("kubectl wait memcached,elasticweb,helloworld --all --for=condition=Ready --timeout=300s");
        for one in self.0.iter().filter(|one| one.is_paused_first()) {
            let now = one.now(shell);
            for (before, now) in one.children.iter().zip(&now) {
                let (before, now) = (&before["spec"], &now["spec"]);
                assert_eq!(before, now, "a paused resource is left alone");
            }
        }
        finish_by_hand(shell);
        asked.end();

        for one in &self.0 {
            for (before, now) in one.children.iter().zip(&one.now(shell)) {
                assert_adopted(before, now);
            }
            one.assert_rolled_once(shell);
        }
        let finalizers =
            shell.must("kubectl get memcached -o jsonpath='{.items[*].metadata.finalizers}'");
        assert_eq!(finalizers.trim(), "");
        readable_in_both_versions(shell);
        answers(shell);
        let told = shell.must("kubectl get events -A --field-selector=reason=Adopted");
        for one in &self.0 {
            let line = format!("Deployment {}, which an older operator made", one.name);
            assert!(told.contains(&line), "{told}");
        }
    }
}

/// The steps before the installation.
fn stop_and_hold_back(shell: &Shell) {
    shell.must("kubectl get memcached,nginx,elasticweb,helloworld -A -o yaml >old-resources.yaml");
    shell.must("grep -c 'kind: ElasticWeb' old-resources.yaml && rm old-resources.yaml");
    shell.must(
        "kubectl get deployments,services -A -o custom-columns='KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name,OWNER:.metadata.ownerReferences[0].kind'",
    );
    shell.must("kubectl -n memcached-operator-system scale deployment/memcached-operator-controller-manager --replicas=0");
    shell.must("kubectl -n nginx-operator-system scale deployment/nginx-operator-controller-manager --replicas=0");
    shell.must("kubectl -n elasticweb-operator-system scale deployment/elasticweb-operator-controller-manager --replicas=0");
    shell.must("kubectl -n helloworld-operator-system scale deployment/helloworld-operator-controller-manager --replicas=0");
    shell.must("kubectl annotate elasticweb web -n shop quartet-operator.example.com/paused=true");
    shell.must("kubectl annotate nginx nginx-sample quartet-operator.example.com/paused=true");
}

/// Sets the fields that the original versions lack, and resumes the resources.
fn finish_by_hand(shell: &Shell) {
    let port = r#"kubectl patch elasticwebs.v2.elasticweb.example.com web -n shop --type=json -p '[{"op":"add","path":"/spec/containerPort","value":8080}]'"#;
    let image = r#"kubectl patch nginxes.v1.proxy.example.com nginx-sample --type=json -p '[{"op":"add","path":"/spec/image","value":"nginx:1.14.2"},{"op":"add","path":"/spec/port","value":80},{"op":"add","path":"/spec/podSecurity","value":"Baseline"}]'"#;
    for patch in [port, image] {
        // Under OLM it may take a moment until the other version can be read.
        let printed = format!("{patch} -o name | wc -l");
        shell.until(&printed, "1", Duration::from_secs(60));
    }
    shell.must("kubectl annotate elasticweb web -n shop quartet-operator.example.com/paused-");
    shell.must("kubectl annotate nginx nginx-sample quartet-operator.example.com/paused-");
    shell.must("kubectl wait elasticweb/web -n shop --for=condition=Ready --timeout=300s");
    shell.must("kubectl wait nginx/nginx-sample --for=condition=Ready --timeout=300s");
}

fn readable_in_both_versions(shell: &Shell) {
    for (version, resources) in [
        (
            "the original version",
            "memcacheds.v1alpha1.cache.example.com nginxes.v1alpha1.proxy.example.com \
             elasticwebs.v1.elasticweb.example.com helloworlds.v1alpha1.test.jiaozi.com",
        ),
        (
            "the new version",
            "memcacheds.v1.cache.example.com nginxes.v1.proxy.example.com \
             elasticwebs.v2.elasticweb.example.com helloworlds.v1.test.jiaozi.com",
        ),
    ] {
        let names: usize = resources
            .split_whitespace()
            .map(|resource| {
                let names = shell.must(&format!("kubectl get {resource} -A -o name"));
                names.lines().count()
            })
            .sum();
        assert_eq!(names, 5, "in {version}");
    }
}

/// All that responded before responds, and so does the web that never did.
fn answers(shell: &Shell) {
    operands::page(NODE, 30003);
    operands::page(NODE, 30013);
    let selector =
        shell.must("kubectl get memcached memcached-sample -o jsonpath='{.status.selector}'");
    let memcached = pods(shell, selector.trim());
    assert_eq!(memcached.len(), 3, "{memcached:?}");
    for pod in memcached {
        operands::store_and_read(&pod);
    }
    let greeters = pods(shell, "hello_name=helloworld-sample");
    assert_eq!(greeters.len(), 2, "{greeters:?}");
    for pod in greeters {
        operands::page(&pod, 8080);
    }
    let nodes = shell.must("kubectl get memcached memcached-sample -o jsonpath='{.status.nodes}'");
    assert!(!nodes.contains("of-long-ago"), "{nodes}");
}

/// Back to the original operators: our manager serves the webhooks and leaves everything else
/// alone.
fn back_and_forth(shell: &Shell) {
    shell.must("kubectl -n quartet-operator-system set env deployment/quartet-operator-controller-manager WATCH_NAMESPACE=nowhere");
    rolled_out(shell);
    shell.must("kubectl -n helloworld-operator-system scale deployment/helloworld-operator-controller-manager --replicas=1");
    shell.must("kubectl scale deployment helloworld-sample --replicas=1");
    // It reconciles in the namespace `nowhere`, so it would in another one if it watched it.
    shell.must("kubectl create namespace nowhere");
    shell.must("kubectl apply -n nowhere -f config/samples/cache_v1alpha1_memcached.yaml");
    shell.must("kubectl wait memcached --all -n nowhere --for=condition=Ready --timeout=120s");
    let replicas = "kubectl get deployment helloworld-sample -o jsonpath='{.spec.replicas}'";
    let found = shell.must(replicas);
    assert_eq!(found.trim(), "1", "left to the original operator");
    readable_in(shell, "helloworlds.v1alpha1.test.jiaozi.com");
    readable_in(shell, "helloworlds.v1.test.jiaozi.com");
    shell.must("kubectl delete namespace nowhere --timeout=120s");

    shell.must("kubectl -n helloworld-operator-system scale deployment/helloworld-operator-controller-manager --replicas=0");
    shell.must("kubectl -n quartet-operator-system set env deployment/quartet-operator-controller-manager WATCH_NAMESPACE-");
    rolled_out(shell);
    shell.until(replicas, "2", Duration::from_secs(120));
}

fn readable_in(shell: &Shell, resources: &str) {
    let names = shell.must(&format!("kubectl get {resources} -o name"));
    assert_eq!(names.lines().count(), 1, "{names}");
}

fn rolled_out(shell: &Shell) {
    shell.must(&format!(
        "kubectl -n {NAMESPACE} rollout status deployment/quartet-operator-controller-manager --timeout=120s"
    ));
}

/// A deleted Deployment is recreated with our selector.
fn a_selector_of_our_own(shell: &Shell) {
    shell.must("kubectl delete deployment memcached-sample");
    shell.until(
        "kubectl get deployment memcached-sample -o jsonpath='{.spec.selector.matchLabels}'",
        r#"{"app.kubernetes.io/instance":"memcached-sample","app.kubernetes.io/name":"memcached"}"#,
        Duration::from_secs(60),
    );
    shell.must("kubectl wait memcached/memcached-sample --for=condition=Ready --timeout=120s");
    let ours = "app.kubernetes.io/instance=memcached-sample,app.kubernetes.io/name=memcached,\
                quartet-operator.example.com/kind=memcached";
    shell.until(
        "kubectl get memcached memcached-sample -o jsonpath='{.status.selector}'",
        ours,
        Duration::from_secs(60),
    );
}
