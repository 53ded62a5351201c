//! From the four old operators to this one, as docs/migrating.md says it: their CRDs, resources,
//! Deployments and Services as they were left, under traffic; then ours, and what became of it
//! all. What the document says to type is typed here.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::bundle;
use crate::node::{NAMESPACE, Node};
use crate::old_operators::{self, assert_taken_over, owned, resource_and_children};
use crate::operands;
use crate::plain;
use crate::shell::Shell;
use crate::traffic::{Endpoints, Traffic};

const OLD: [&str; 4] = ["memcached", "nginx", "elasticweb", "helloworld"];
/// An ElasticWeb whose image listens on 8080, in the namespace `shop`.
const SHOP: &str = include_str!("../support/original/shop.yaml");
/// Where NodePorts answer.
const NODE: &str = "10.250.0.1";
/// How long a user who asks again and again may be without an answer. The pods of the old
/// operators end at once, and kube-proxy hears of it up to a second after them: until then one
/// request of several meets nobody.
const SILENCE: Duration = Duration::from_secs(5);
/// Where objects are written before they are handed to kubectl.
const FILES: &str = "target/e2e/old";

/// Installed from one file; then back to the old operators, and forth.
pub(crate) fn by_one_file(node: &Node) {
    let shell = &node.shell;
    let world = World::leave(shell);
    let traffic = world.ask(shell);
    stop_and_hold_back(shell);
    shell.must("kubectl apply --server-side --force-conflicts -f dist/install.yaml");
    shell.must(
        "kubectl -n quartet-operator-system rollout status deployment/quartet-operator-controller-manager --timeout=120s",
    );
    world.becomes_ours(shell, traffic);
    back_and_forth(shell);
    a_selector_of_our_own(shell);
    world.clean(shell);
    shell.must("kubectl delete -f dist/install.yaml --timeout=120s");
    plain::nothing_left(node);
}

/// Installed by OLM, onto CRDs that it has not made.
pub(crate) fn under_olm(node: &Node) {
    let shell = &node.shell;
    node.olm();
    let world = World::leave(shell);
    let traffic = world.ask(shell);
    stop_and_hold_back(shell);
    shell.must("kubectl create namespace quartet-operator-system");
    shell.must(&format!(
        "{} \
         operator-sdk run bundle ghcr.io/quartet-operator/quartet-operator-bundle:v0.1.0 -n quartet-operator-system --timeout 5m",
        Node::tools()
    ));
    // OLM writes the caBundles once more, some ten seconds after Succeeded.
    shell.until(
        "kubectl get memcached,nginx,elasticweb,helloworld -A -o name | wc -l",
        "5",
        Duration::from_secs(60),
    );
    world.becomes_ours(shell, traffic);
    world.clean(shell);
    bundle::clean_up(node);
}

/// A resource, the children that its old operator had made of it, and where.
struct Left {
    namespace: &'static str,
    name: String,
    /// As they were when their pods were ready.
    children: Vec<Value>,
}

/// What the old operators left.
struct World(Vec<Left>);

impl World {
    fn leave(shell: &Shell) -> Self {
        shell.must("kubectl apply -f tests/support/original/crds");
        shell.must("kubectl wait --for=condition=Established crd --all --timeout=60s");
        // kubectl remembers for hours which versions there were, and asks anew for this.
        for (group, version) in [
            ("cache.example.com", "v1alpha1"),
            ("proxy.example.com", "v1alpha1"),
            ("elasticweb.example.com", "v1"),
            ("test.jiaozi.com", "v1alpha1"),
        ] {
            shell.until(
                &format!(
                    "kubectl api-resources --api-group={group} | grep -c ' {group}/{version} '"
                ),
                "1",
                Duration::from_secs(60),
            );
        }
        for name in OLD {
            shell.must(&format!(
                "sed 's/NAME/{name}/' tests/support/original/operator.yaml | kubectl apply -f -"
            ));
        }
        shell.must(&format!("rm -rf {FILES} && mkdir -p {FILES}"));
        shell.must("kubectl create namespace shop");
        let of_all = old_operators::ALL.map(|(_, documents)| ("default", documents));
        let all = of_all.into_iter().chain([("shop", SHOP)]);
        let mut left: Vec<Left> = all
            .map(|(namespace, documents)| Left::leave(shell, namespace, documents))
            .collect();
        // As the last reconcile of an old operator left it, which pods have long outlived.
        shell.must(
            "kubectl patch memcached memcached-sample --subresource=status --type=merge \
             -p '{\"status\":{\"nodes\":[\"of-long-ago\"]}}'",
        );
        shell.must("kubectl apply -f tests/support/original/site.yaml");
        for one in &mut left {
            let (namespace, name) = (one.namespace, &one.name);
            shell.must(&format!(
                "kubectl -n {namespace} rollout status deployment/{name} --timeout=180s"
            ));
            one.children = one.now(shell);
        }
        Self(left)
    }

    /// Begins to ask those that answer. The web of the old sample never did: its pods listen on
    /// another port than its Service goes to.
    fn ask(&self, shell: &Shell) -> Asked {
        let silent = operands::fetch(NODE, 30003, SILENCE);
        assert!(silent.is_err(), "the fault of the old operator: {silent:?}");
        for pod in pods(shell, "app.kubernetes.io/name=memcached-operator") {
            operands::store_and_read(&pod);
        }
        let site = shell.must("kubectl get service site -o jsonpath='{.spec.clusterIP}'");
        Asked {
            traffic: [Traffic::begin(NODE, 30013), Traffic::begin(site.trim(), 80)],
            endpoints: [
                (Endpoints::watch(shell, "shop", "web"), 2),
                (Endpoints::watch(shell, "default", "site"), 3),
                (Endpoints::watch(shell, "default", "elasticweb-sample"), 3),
            ],
        }
    }

    /// What docs/migrating.md says comes after the installation, and what it promises.
    fn becomes_ours(&self, shell: &Shell, asked: Asked) {
        shell.must("kubectl wait memcached,elasticweb,helloworld --all --for=condition=Ready --timeout=300s");
        for one in self.0.iter().filter(|one| one.is_held_back()) {
            let now = one.now(shell);
            for (before, now) in one.children.iter().zip(&now) {
                assert_eq!(before["spec"], now["spec"], "paused, it is left alone");
            }
        }
        finish_by_hand(shell);
        asked.end();

        for one in &self.0 {
            for (before, now) in one.children.iter().zip(&one.now(shell)) {
                assert_taken_over(before, now);
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

    fn clean(&self, shell: &Shell) {
        shell.must(
            "kubectl delete namespace memcached-operator-system nginx-operator-system elasticweb-operator-system helloworld-operator-system",
        );
        shell.must("kubectl delete elasticweb web -n shop --timeout=60s");
        shell.must("kubectl delete namespace shop --timeout=120s");
        shell.must("kubectl delete service site");
        operands::clean(shell);
    }
}

/// Requests under way, and Services whose endpoints are watched with the fewest they may have.
struct Asked {
    traffic: [Traffic; 2],
    endpoints: [(Endpoints, usize); 3],
}

impl Asked {
    #[track_caller]
    fn end(self) {
        for traffic in self.traffic {
            let record = traffic.end();
            assert!(record.silence < SILENCE, "{record:?}");
            assert!(record.failures < record.answers / 4, "{record:?}");
        }
        for (endpoints, wanted) in self.endpoints {
            let fewest = endpoints.fewest();
            assert!(fewest >= wanted, "{fewest} endpoints at a moment");
        }
    }
}

impl Left {
    /// Makes the resource as its user did, and the children as its operator did.
    fn leave(shell: &Shell, namespace: &'static str, documents: &str) -> Self {
        let (resource, children) = resource_and_children(documents);
        let name = resource["metadata"]["name"].as_str().expect("a name");
        let kind = resource["kind"].as_str().expect("a kind");
        let file = write(&format!("{namespace}-{name}"), &resource);
        shell.must(&format!("kubectl apply -n {namespace} -f {file}"));
        let resource = json(shell, namespace, kind, name);
        let children = children.into_iter().map(|child| owned(child, &resource));
        let children: Vec<Value> = children.collect();
        for child in &children {
            let kind = child["kind"].as_str().expect("a kind");
            let file = write(&format!("{namespace}-{name}-{kind}"), child);
            // The field manager of a Go operator is the name of its process.
            shell.must(&format!(
                "kubectl create -n {namespace} --field-manager=manager -f {file}"
            ));
        }
        Self {
            namespace,
            name: name.to_owned(),
            children,
        }
    }

    /// Its children as they are now.
    fn now(&self, shell: &Shell) -> Vec<Value> {
        let kinds = self.children.iter().map(|child| &child["kind"]);
        kinds
            .map(|kind| {
                json(
                    shell,
                    self.namespace,
                    kind.as_str().expect("a kind"),
                    &self.name,
                )
            })
            .collect()
    }

    /// Whether docs/migrating.md has it paused until something is done by hand.
    fn is_held_back(&self) -> bool {
        ["web", "nginx-sample"].contains(&&*self.name)
    }

    /// One ReplicaSet more than the old operator's, and no pods but its.
    fn assert_rolled_once(&self, shell: &Shell) {
        let (namespace, name) = (self.namespace, &self.name);
        let revision = shell.must(&format!(
            "kubectl get deployment {name} -n {namespace} \
             -o jsonpath='{{.metadata.annotations.deployment\\.kubernetes\\.io/revision}}'"
        ));
        assert_eq!(revision.trim(), "2", "{name} was rolled out once");
        let sets = shell.must(&format!(
            "kubectl get replicasets -n {namespace} \
             -o jsonpath='{{range .items[*]}}{{.metadata.ownerReferences[0].name}}{{\"\\n\"}}{{end}}'"
        ));
        let of_it = sets.lines().filter(|owner| owner == name);
        assert_eq!(of_it.count(), 2, "{name}: {sets}");
    }
}

/// What comes before the installation.
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

/// What was held back gets what the old versions cannot say, and goes on.
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
            "the old version",
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

/// Everything that answered before answers, and so does what never did.
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

/// Back to the old operators: ours serves the webhooks and leaves all else alone.
fn back_and_forth(shell: &Shell) {
    shell.must("kubectl -n quartet-operator-system set env deployment/quartet-operator-controller-manager WATCH_NAMESPACE=nowhere");
    rolled_out(shell);
    shell.must("kubectl -n helloworld-operator-system scale deployment/helloworld-operator-controller-manager --replicas=1");
    shell.must("kubectl scale deployment helloworld-sample --replicas=1");
    // That it does what it does nowhere shows that it could elsewhere.
    shell.must("kubectl create namespace nowhere");
    shell.must("kubectl apply -n nowhere -f config/samples/cache_v1alpha1_memcached.yaml");
    shell.must("kubectl wait memcached --all -n nowhere --for=condition=Ready --timeout=120s");
    let replicas = "kubectl get deployment helloworld-sample -o jsonpath='{.spec.replicas}'";
    assert_eq!(shell.must(replicas).trim(), "1", "left to the old operator");
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

/// A Deployment that is deleted comes back as we would have made it.
fn a_selector_of_our_own(shell: &Shell) {
    shell.must("kubectl delete deployment memcached-sample");
    shell.until(
        "kubectl get deployment memcached-sample -o jsonpath='{.spec.selector.matchLabels}'",
        r#"{"app.kubernetes.io/instance":"memcached-sample","app.kubernetes.io/name":"memcached"}"#,
        Duration::from_secs(60),
    );
    shell.must("kubectl wait memcached/memcached-sample --for=condition=Ready --timeout=120s");
    let ours = "app.kubernetes.io/instance=memcached-sample,app.kubernetes.io/name=memcached";
    shell.until(
        "kubectl get memcached memcached-sample -o jsonpath='{.status.selector}'",
        ours,
        Duration::from_secs(60),
    );
}

/// The addresses of the pods in `default` that these labels select and that are to stay.
fn pods(shell: &Shell, labels: &str) -> Vec<String> {
    let addresses = shell.must(&format!(
        "kubectl get pods -l {labels} -o go-template='{{{{range .items}}}}\
         {{{{if not .metadata.deletionTimestamp}}}}{{{{.status.podIP}}}} {{{{end}}}}{{{{end}}}}'"
    ));
    addresses
        .split_whitespace()
        .map(ToOwned::to_owned)
        .collect()
}

fn json(shell: &Shell, namespace: &str, kind: &str, name: &str) -> Value {
    let text = shell.must(&format!(
        "kubectl get {kind} {name} -n {namespace} --show-managed-fields -o json"
    ));
    serde_json::from_str(&text).expect("JSON")
}

/// Writes an object where kubectl finds it.
fn write(name: &str, object: &Value) -> String {
    let file = format!("{FILES}/{name}.json");
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    fs::write(path, object.to_string()).expect("written");
    file
}
