//! Removes the product with the commands that the documents give, and compares all objects of the cluster
//! with those before the installation.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::node::Node;
use crate::shell::Shell;

const OPERATIONS: &str = include_str!("../../docs/operations.md");
const HELM: &str = include_str!("../../docs/helm.md");

/// The ways to install that the table of the document names, by the beginning of their rows.
pub(crate) const ONE_FILE: &str = "| `dist/install.yaml` | `";
pub(crate) const DEPLOY: &str = "| `make deploy`, with any `OVERLAY` | `";
pub(crate) const CERT_MANAGER: &str =
    "| `kubectl apply -k config/certmanager`, or another folder or overlay | `";
pub(crate) const OLM_V1: &str = "| `config/olm-v1` | `";

/// The document and the words above the block with the commands of other ways.
type Block = (&'static str, &'static str);
pub(crate) const CATALOG: Block = (OPERATIONS, "From the catalog.");
pub(crate) const CATALOG_ELSEWHERE: Block = (OPERATIONS, "From the catalog, in another namespace");
pub(crate) const BUNDLE: Block = (OPERATIONS, "From a bundle.");
pub(crate) const OLM_V1_RELEASED: Block = (OPERATIONS, "OLM v1 can also stop managing");
pub(crate) const OLM_V1_HISTORY: Block = (OPERATIONS, "OLM v1 keeps its history in Secrets");
pub(crate) const HELM_RELEASE: Block = (HELM, "## Uninstall");
pub(crate) const HELM_REST: Block = (HELM, "To remove everything, with all resources");

/// How long garbage collection may take after the last command.
const LIMIT: Duration = Duration::from_secs(120);

/// Every object of every kind that can be deleted, a line for each. A generated name has no suffix, because
/// pods are replaced.
const OBJECTS: &str = "kinds=$(kubectl api-resources --verbs=list,delete -o name | sort | paste -sd,) && \
     kubectl get $kinds --all-namespaces --ignore-not-found -o go-template='{{range .items}}\
     {{.kind}} {{with .metadata.namespace}}{{.}}/{{end}}{{or .metadata.generateName .metadata.name}}{{\"\\n\"}}{{end}}'";

/// Kinds whose objects the cluster itself, OLM and cert-manager make and delete at any time.
const OF_THE_CLUSTER: [&str; 4] = [
    "Event",
    "Lease",
    "CertificateSigningRequest",
    "CertificateRequest",
];

/// Runs the command of this row of the table.
pub(crate) fn by_row(shell: &Shell, row: &str) {
    shell.must(command(row));
}

fn command(row: &str) -> &'static str {
    let (_, rest) = OPERATIONS.split_once(row).expect(row);
    let (command, _) = rest.split_once('`').expect("the end of the command");
    command
}

/// Runs the commands of the first block below these words.
pub(crate) fn by_block(shell: &Shell, block: Block) {
    for command in commands(block) {
        let path = match command.split(' ').next() {
            Some("helm") => Node::helm(),
            Some("operator-sdk") => Node::tools(),
            _ => "",
        };
        shell.must(&format!("{path} {command}"));
    }
}

pub(crate) fn commands((document, words): Block) -> Vec<&'static str> {
    let (_, below) = document.split_once(words).expect(words);
    let (_, block) = below.split_once("```console\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    let commands = block.lines().map(|line| line.strip_prefix("$ "));
    commands.map(|it| it.expect("a command")).collect()
}

#[test]
fn the_documents_have_the_commands_of_every_way() {
    let rows = [ONE_FILE, DEPLOY, CERT_MANAGER, OLM_V1].map(command);
    let expected = [
        "kubectl delete -f dist/install.yaml",
        "make undeploy",
        "kubectl delete -k config/certmanager",
        "kubectl delete -k config/olm-v1",
    ];
    assert_eq!(rows, expected);
    let roles = "kubectl delete $(kubectl get clusterroles -l app.kubernetes.io/name=quartet-operator -o name)";
    let binding = "kubectl -n kube-system delete rolebinding quartet-operator-controller-manager-service-auth-reader";
    let operator = "kubectl delete operator quartet-operator.quartet-operator-system";
    let namespace = "kubectl delete namespace quartet-operator-system";
    let of_catalog = [
        "kubectl -n quartet-operator-system delete subscription quartet-operator",
        "kubectl -n quartet-operator-system delete $(kubectl -n quartet-operator-system get csv -l operators.coreos.com/quartet-operator.quartet-operator-system= -o name)",
        namespace,
        "kubectl delete -k config/crd",
        roles,
        binding,
        operator,
    ];
    assert_eq!(commands(CATALOG), of_catalog);
    let elsewhere = [
        "kubectl -n operators delete subscription quartet-operator",
        "kubectl -n operators delete $(kubectl -n operators get csv -l operators.coreos.com/quartet-operator.operators= -o name)",
        "kubectl -n olm delete catalogsource quartet-operator-catalog",
        "kubectl delete -k config/crd",
        roles,
        binding,
        "kubectl delete operator quartet-operator.operators",
    ];
    assert_eq!(commands(CATALOG_ELSEWHERE), elsewhere);
    let of_bundle = [
        "operator-sdk cleanup quartet-operator -n quartet-operator-system --delete-all=false --delete-crds",
        roles,
        binding,
        namespace,
        operator,
    ];
    assert_eq!(commands(BUNDLE), of_bundle);
    let released = [
        "kubectl -n olmv1-system scale deployment/operator-controller-controller-manager --replicas=0",
        "kubectl -n olmv1-system wait --for=delete pod --selector=control-plane=operator-controller-controller-manager --timeout=2m",
        "kubectl delete clusterextension quartet-operator --cascade=orphan --wait=false",
        "kubectl -n olmv1-system scale deployment/operator-controller-controller-manager --replicas=1",
        "kubectl wait --for=delete clusterextension/quartet-operator --timeout=2m",
    ];
    assert_eq!(commands(OLM_V1_RELEASED), released);
    let history = [
        "kubectl -n olmv1-system delete $(kubectl -n olmv1-system get secrets -l owner=operator-controller,name=quartet-operator -o name)",
    ];
    assert_eq!(commands(OLM_V1_HISTORY), history);
    let of_release = ["helm uninstall quartet --namespace quartet-operator-system --wait"];
    assert_eq!(commands(HELM_RELEASE), of_release);
    let rest = [
        "kubectl delete $(kubectl get crd -l app.kubernetes.io/name=quartet-operator -o name)",
        namespace,
    ];
    assert_eq!(commands(HELM_REST), rest);
}

/// All objects of the cluster before an installation.
pub(crate) struct Before(BTreeSet<String>);

impl Before {
    pub(crate) fn installation(shell: &Shell) -> Self {
        Self(objects(&shell.must(OBJECTS)))
    }

    /// Asserts that every object that was made since is gone, and no other.
    #[track_caller]
    pub(crate) fn nothing_left(&self, shell: &Shell) {
        let began = Instant::now();
        loop {
            let said = shell.run_without_printing(OBJECTS);
            let now = objects(&said.output);
            let left: Vec<_> = now.difference(&self.0).collect();
            let gone: Vec<_> = self.0.difference(&now).collect();
            if said.is_success && left.is_empty() && gone.is_empty() {
                return;
            }
            assert!(
                began.elapsed() < LIMIT,
                "left: {left:#?}\ndeleted: {gone:#?}\n{}",
                said.errors
            );
            thread::sleep(Duration::from_secs(2));
        }
    }
}

fn objects(lines: &str) -> BTreeSet<String> {
    let is_of_the_cluster = |line: &str| {
        let kind = line.split(' ').next().unwrap_or_default();
        OF_THE_CLUSTER.contains(&kind)
    };
    let lines = lines.lines().filter(|line| !is_of_the_cluster(line));
    lines.map(str::to_owned).collect()
}
