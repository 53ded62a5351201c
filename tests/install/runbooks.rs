//! Every command of the runbooks is run against an API server that has what they look at. What needs
//! pods that run, cert-manager or OLM must fail for that reason and no other.

use std::process::Command;
use std::time::{Duration, Instant};

use pulldown_cmark::{Event, Parser};
use serde_json::{Value, json};

use crate::private;
use crate::rendered::repository;

const DEADLINE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "quartet-operator-system";

/// What stands in a runbook for something of the reader's.
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

/// Part of a command, and how it fails here.
const ELSEWHERE: [(&str, &str); 3] = [
    // A simulated node has no kubelet.
    (" logs ", "Error from server"),
    (
        " describe certificate",
        "doesn't have a resource type \"certificate\"",
    ),
    (" get csv ", "doesn't have a resource type \"csv\""),
];

/// The code in sentences and tables that is a whole command, with its runbook.
fn commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for entry in std::fs::read_dir(repository().join("docs/runbooks")).expect("runbooks") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .and_then(|it| it.to_str())
            .expect("a name")
            .to_owned();
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            // `kubectl describe` alone is a hint.
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
    kubeconfig: std::path::PathBuf,
    path: std::ffi::OsString,
}

impl Shell {
    /// Whether a line succeeded, and what it wrote.
    fn run(&self, line: &str) -> (bool, String) {
        let watches = line.contains(" --watch");
        let seconds = if watches { "5" } else { "90" };
        let output = Command::new("timeout")
            .args([seconds, "bash", "-o", "pipefail", "-c", line])
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", &self.path)
            .output()
            .expect("bash runs");
        let text = [output.stdout, output.stderr].concat();
        // A watch is ended by us.
        let is_watch = watches && output.status.code() == Some(124);
        (
            output.status.success() || is_watch,
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    fn must(&self, line: &str) {
        let (succeeded, said) = self.run(line);
        assert!(succeeded, "$ {line}\n{said}");
    }

    fn apply(&self, object: &Value) {
        self.must(&format!("kubectl apply -f - <<'END'\n{object}\nEND"));
    }
}

#[tokio::test]
async fn every_command_of_the_runbooks_does_what_it_says() {
    let private = private::cluster().await;
    private.cluster.start_controllers().expect("controllers");
    let environment = private.cluster.environment();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = environment.binaries.clone().into_os_string();
    let shell = Shell {
        path: [own, path].join(":".as_ref()),
        kubeconfig: environment.kubeconfig,
    };
    let config = repository().join("config");
    shell.must(&format!(
        "kubectl apply --server-side -k {}/crd",
        config.display()
    ));
    shell.must("kubectl wait --for=condition=Established crd --all --timeout=60s");
    let sample = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": "sample", "annotations": {"note": "n"}}, "spec": {"replicas": 1},
    });
    let began = Instant::now();
    while !shell
        .run(&format!("kubectl apply -f - <<'END'\n{sample}\nEND"))
        .0
    {
        assert!(began.elapsed() < DEADLINE, "the kind is never served");
    }
    shell.must(&format!(
        "kubectl apply --server-side -k {}/default",
        config.display()
    ));
    shell.apply(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "quartet-operator.example.com", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "somebody"},
    }));
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
        shell.must(&format!(
            "kubectl -n {NAMESPACE} create secret tls {secret} --cert={0}/tls.crt --key={0}/tls.key",
            folder.display()
        ));
    }
    // docs/operations.md has these; each makes a revision that can be undone.
    let manager = "deployment/quartet-operator-controller-manager";
    for variable in ["LOG_LEVEL=debug", "LOG_LEVEL-"] {
        shell.must(&format!(
            "kubectl -n {NAMESPACE} set env {manager} {variable}"
        ));
        shell.must(&format!(
            "kubectl -n {NAMESPACE} rollout status {manager} --timeout=90s"
        ));
    }

    let mut commands = commands();
    assert!(commands.len() > 25, "{commands:#?}");
    // What deletes, last.
    commands.sort_by_key(|(_, command)| command.contains(" delete "));
    let mut wrong = Vec::new();
    for (runbook, written) in commands {
        let filled = PLACEHOLDERS
            .iter()
            .fold(written.clone(), |line, (from, to)| line.replace(from, to));
        let (succeeded, said) = shell.run(&filled);
        let elsewhere = ELSEWHERE.iter().find(|(part, _)| filled.contains(part));
        let is_right = match elsewhere {
            Some((_, failure)) => !succeeded && said.contains(failure),
            None => succeeded,
        };
        println!(
            "{runbook}: {written}: {}",
            if is_right { "ok" } else { "WRONG" }
        );
        if !is_right {
            wrong.push(format!("{runbook}: $ {filled}\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
