//! The state that the four original operators left: CRDs, resources, Deployments and Services, with
//! requests to them during the test.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::operands;
use crate::shell::Shell;
use crate::traffic::{Endpoints, Traffic};
use testkit::original_operators::{self, owned, resource_and_children};

const OLD: [&str; 4] = ["memcached", "nginx", "elasticweb", "helloworld"];
/// An ElasticWeb whose image listens on 8080, in the namespace `shop`.
const SHOP: &str = include_str!("../support/original/shop.yaml");
/// The address of NodePorts.
pub(crate) const NODE: &str = "10.250.0.1";
/// The longest time that a user who repeats requests may get no response. The pods of the original
/// operators end at once, and kube-proxy is updated up to a second later: until then one of several
/// requests reaches no pod.
const SILENCE: Duration = Duration::from_secs(5);
/// The folder for objects that kubectl reads.
const FILES: &str = "target/e2e/old";

/// A resource, the children that its original operator had created, and their namespace.
pub(crate) struct Left {
    namespace: &'static str,
    pub(crate) name: String,
    /// The children when their pods were ready.
    pub(crate) children: Vec<Value>,
}

/// The state that the original operators left.
pub(crate) struct World(pub(crate) Vec<Left>);

impl World {
    pub(crate) fn leave(shell: &Shell) -> Self {
        shell.must("kubectl apply -f tests/support/original/crds");
        shell.must("kubectl wait --for=condition=Established crd --all --timeout=60s");
        // kubectl caches API discovery for hours, and this refreshes it.
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
        let of_all = original_operators::ALL.map(|(_, documents)| ("default", documents));
        let all = of_all.into_iter().chain([("shop", SHOP)]);
        let mut left: Vec<Left> = all
            .map(|(namespace, documents)| Left::leave(shell, namespace, documents))
            .collect();
        // The status of the original operator's last reconcile; the pods exist no longer.
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

    /// Starts requests to the Services that respond. The web of the original sample never did: its
    /// pods listen on another port than the Service's target.
    pub(crate) fn ask(&self, shell: &Shell) -> Asked {
        let silent = operands::fetch(NODE, 30003, SILENCE);
        assert!(
            silent.is_err(),
            "the fault of the original operator: {silent:?}"
        );
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

    pub(crate) fn clean(&self, shell: &Shell) {
        shell.must(
            "kubectl delete namespace memcached-operator-system nginx-operator-system elasticweb-operator-system helloworld-operator-system",
        );
        shell.must("kubectl delete elasticweb web -n shop --timeout=60s");
        shell.must("kubectl delete namespace shop --timeout=120s");
        shell.must("kubectl delete service site");
        operands::clean(shell);
    }
}

/// Requests in progress, and Services whose endpoints are watched, with the fewest they may have.
pub(crate) struct Asked {
    traffic: [Traffic; 2],
    endpoints: [(Endpoints, usize); 3],
}

impl Asked {
    #[track_caller]
    pub(crate) fn end(self) {
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
    /// Creates the resource as its user did, and the children as its operator did.
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
            // The field manager of a Go operator is its process name.
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

    /// Returns its children as they are now.
    pub(crate) fn now(&self, shell: &Shell) -> Vec<Value> {
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

    /// Reports whether docs/migrating.md pauses it until a manual change.
    pub(crate) fn is_paused_first(&self) -> bool {
        ["web", "nginx-sample"].contains(&&*self.name)
    }

    /// Asserts that there is one ReplicaSet more than the original operator's, and that only its
    /// pods run.
    pub(crate) fn assert_rolled_once(&self, shell: &Shell) {
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

/// Returns the addresses of the pods in `default` with these labels that are to stay.
pub(crate) fn pods(shell: &Shell, labels: &str) -> Vec<String> {
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

/// Writes an object to a file for kubectl.
fn write(name: &str, object: &Value) -> String {
    let file = format!("{FILES}/{name}.json");
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    fs::write(path, object.to_string()).expect("written");
    file
}
