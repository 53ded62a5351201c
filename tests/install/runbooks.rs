//! Runs every command of the runbooks on an API server with the objects that they read. Commands
//! that need running pods, cert-manager or OLM must fail for exactly that reason.

use std::process::Command;
use std::time::Duration;

use devcluster::Environment;
use pulldown_cmark::{Event, Parser};
use serde_json::{Value, json};
use testkit::{DEADLINE, Limit, bash_line};

use crate::rendered::repository;

const NAMESPACE: &str = "quartet-operator-system";

/// Placeholders of the runbooks for values of the reader.
const PLACEHOLDERS: [(&str, &str); 3] = [
    ("KIND NAME", "memcached sample"),
    (
        "PLURAL.VERSION.GROUP NAME",
        "memcacheds.v1.cache.example.com sample",
    ),
    (
        " POD",
        " $(kubectl -n quartet-operator-system get pods -o jsonpath='{.items[0].metadata.name}')",
    ),
];

/// Part of a command, and its error here.
const ELSEWHERE: [(&str, &str); 3] = [
    // A simulated node has no kubelet.
    (" logs ", "Error from server"),
    (
        " describe certificate",
        "doesn't have a resource type \"certificate\"",
    ),
    (" get csv ", "doesn't have a resource type \"csv\""),
];

/// Returns the code spans in sentences and tables that are complete commands, with their runbooks.
fn commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for entry in std::fs::read_dir(repository().join("docs/runbooks")).expect("runbooks") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|it| it.to_str());
        let name = name.expect("a name").to_owned();
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            // `kubectl describe` alone is only mentioned.
            if let Event::Code(code) = event
                && code.starts_with("kubectl ")
                && code.split_whitespace().count() > 3
            {
                commands.push((name.clone(), code.into_string()));
            }
        }
    }
    commands.sort();
    commands
}

struct Shell {
    environment: Environment,
}

impl Shell {
    /// Returns whether a line succeeded, and its output.
    fn run(&self, line: &str) -> (bool, String) {
        let watches = line.contains(" --watch");
        let limit = Duration::from_secs(if watches { 5 } else { 300 });
        let output = Command::new("setpriv")
            .args(bash_line(limit, line))
            .envs(self.environment.variables())
            .output()
            .expect("bash runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        // The test ends a watch.
        let is_watch = watches && output.status.code() == Some(124);
        (output.status.success() || is_watch, text)
    }

    fn must(&self, line: &str) {
        let (succeeded, said) = self.run(line);
        assert!(succeeded, "$ {line}\n{said}");
    }

    fn apply(&self, object: &Value) -> (bool, String) {
        self.run(&format!("kubectl apply -f - <<'END'\n{object}\nEND"))
    }
}

#[tokio::test]
async fn every_command_of_the_runbooks_works() {
    let private = testkit::private_cluster().await;
    let shell = Shell {
        environment: private.cluster.environment(),
    };
    let config = repository().join("config");
    let apply = format!("kubectl apply --server-side -k {}", config.display());
    shell.must(&format!("{apply}/crd"));
    shell.must("kubectl wait --for=condition=Established crd --all --timeout=300s");
    let sample = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": "sample", "annotations": {"note": "n"}}, "spec": {"replicas": 1},
    });
    let mut limit = Limit::new(DEADLINE);
    while !shell.apply(&sample).0 {
        limit.pause(|| "the CRD is not served").await;
    }
    shell.must(&format!("{apply}/default"));
    let (is_applied, said) = shell.apply(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "quartet-operator.example.com", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "somebody"},
    }));
    assert!(is_applied, "{said}");
    let folder = crate::rendered::scratch("runbooks");
    let pair = format!("-keyout {0}/tls.key -out {0}/tls.crt", folder.display());
    shell.must(&format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 {pair} -subj /CN=a"
    ));
    for secret in [
        "webhook-server-cert",
        "quartet-operator-webhook-server-cert",
        "quartet-operator-controller-manager-service-cert",
    ] {
        let files = format!("--cert={0}/tls.crt --key={0}/tls.key", folder.display());
        shell.must(&format!(
            "kubectl -n {NAMESPACE} create secret tls {secret} {files}"
        ));
    }
    // From docs/operations.md; each creates a revision that can be rolled back.
    let manager = "deployment/quartet-operator-controller-manager";
    for variable in ["LOG_LEVEL=debug", "LOG_LEVEL-"] {
        let set = format!("set env {manager} {variable}");
        let wait = format!("rollout status {manager} --timeout=300s");
        for command in [set, wait] {
            shell.must(&format!("kubectl -n {NAMESPACE} {command}"));
        }
    }

    let mut commands = commands();
    assert!(commands.len() > 25, "{commands:#?}");
    // Commands that delete run last.
    commands.sort_by_key(|(_, command)| command.contains(" delete "));
    let mut wrong = Vec::new();
    for (runbook, written) in commands {
        let mut filled = written.clone();
        for (placeholder, value) in PLACEHOLDERS {
            filled = filled.replace(placeholder, value);
        }
        let (succeeded, said) = shell.run(&filled);
        let elsewhere = ELSEWHERE.iter().find(|(part, _)| filled.contains(part));
        let is_right = match elsewhere {
            Some((_, failure)) => !succeeded && said.contains(failure),
            None => succeeded,
        };
        println!("{runbook}: {written}: {is_right}");
        if !is_right {
            wrong.push(format!("{runbook}: $ {filled}\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
