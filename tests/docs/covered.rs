//! Where a command of a document is run: by `make test-docs`, unless another test types the
//! same line, or it is on the list below. Text only; runs nothing.

use std::fs;
use std::path::Path;

/// Commands that no test runs as they stand, and why.
pub(crate) const LISTED: &[(&str, &str)] = &[
    (
        "make bench",
        "measures for minutes, on a machine with nothing else to do",
    ),
    (
        "make bench-peer",
        "measures for half an hour, and builds two other managers",
    ),
    (
        "make bench-webhook",
        "measures for three minutes, on a machine with nothing else to do",
    ),
    (
        "ELECTION_TRIALS=30 make test TESTFLAGS='--test election hands_over'",
        "measures; `make test` has five trials",
    ),
    (
        "make test-rollout",
        "measures for two minutes; `make test` has three restarts",
    ),
    (
        "make explore PLANS=100000 SEED=1",
        "takes half an hour; `cargo test` has 1000 plans of each kind",
    ),
    (
        "make mutants N=200 SEED=1",
        "takes hours; `make test-nightly` runs it",
    ),
    (
        "make devcluster-up",
        "leaves a cluster running; tools/devcluster/tests/command.rs has `devcluster up`",
    ),
    (
        "make deploy IMG=registry.example.com/manager:v1",
        "tests/install/deployed.rs does, with an image of its own",
    ),
    (
        "kubectl patch crd memcacheds.cache.example.com nginxes.proxy.example.com helloworlds.test.jiaozi.com --type=json -p '[{\"op\":\"test\",\"path\":\"/spec/versions/1/name\",\"value\":\"v1alpha1\"},{\"op\":\"replace\",\"path\":\"/spec/versions/1/served\",\"value\":false}]'",
        "tests/versions/operator_removed.rs does, and sees what it is for",
    ),
    (
        "kubectl patch crd elasticwebs.elasticweb.example.com --type=json -p '[{\"op\":\"test\",\"path\":\"/spec/versions/0/name\",\"value\":\"v1\"},{\"op\":\"replace\",\"path\":\"/spec/versions/0/served\",\"value\":false}]'",
        "tests/versions/operator_removed.rs does, and sees what it is for",
    ),
    (
        "kubectl apply -k config/migrate-storage",
        "tests/install has an API server take it; tests/versions/migrate_storage.rs has its rights",
    ),
    (
        "kubectl -n quartet-operator-system wait --for=jsonpath='{.status.conditions[?(@.status==\"True\")].type}' --timeout=10m job/quartet-operator-storage-migration",
        "needs pods that run",
    ),
    (
        "kubectl -n quartet-operator-system logs job/quartet-operator-storage-migration",
        "needs pods that run",
    ),
    (
        "kubectl delete -k config/migrate-storage",
        "needs the Job to be there",
    ),
    (
        "kubectl -n quartet-operator-system set env deployment/quartet-operator-controller-manager LOG_LEVEL=debug",
        "the runbooks' test has the Deployment and runs it: tests/install/runbooks.rs",
    ),
    (
        "kubectl -n quartet-operator-system set env deployment/quartet-operator-controller-manager LOG_LEVEL-",
        "likewise",
    ),
    (
        "CARGO_PROFILE_DEV_DEBUG=full CARGO_TARGET_DIR=target/debugger cargo build --locked --bin manager",
        "builds everything once more, for minutes",
    ),
    (
        "target/debug/devcluster webhooks --url=https://127.0.0.1:9443 -- rust-gdb -ex \"break reconcile.rs:$(sed -n '/async fn reconcile(/=' src/controller/reconcile.rs)\" -ex run --args target/debugger/debug/manager --log-format=text",
        "a debugger is for somebody at a terminal",
    ),
    (
        "kubectl -n quartet-operator-system port-forward service/quartet-operator-controller-manager-metrics-service 8443 &",
        "needs pods that run",
    ),
    (
        "curl -k -H \"Authorization: Bearer $(kubectl -n monitoring create token prometheus)\" https://127.0.0.1:8443/metrics",
        "tests/cluster/metrics.rs reads them with the token of such an account",
    ),
    (
        "helm install quartet dist/chart --namespace quartet-operator-system --create-namespace --wait",
        "tests/install/released.rs does, with a Helm that is built for it",
    ),
    (
        "helm upgrade quartet dist/chart --namespace quartet-operator-system --wait",
        "tests/install/released.rs does, with a Helm that is built for it",
    ),
    (
        "helm rollback quartet --namespace quartet-operator-system --wait",
        "tests/install/released.rs does, with a Helm that is built for it",
    ),
    (
        "helm uninstall quartet --namespace quartet-operator-system --wait",
        "tests/install/released.rs does, with a Helm that is built for it",
    ),
    (
        "sha256sum --check --ignore-missing SHA256SUMS",
        "needs the files of a release",
    ),
    (
        "cosign verify-blob SHA256SUMS --bundle SHA256SUMS.sigstore.json --certificate-oidc-issuer https://token.actions.githubusercontent.com --certificate-identity https://github.com/quartet-operator/quartet-operator/.github/workflows/release.yml@refs/tags/v0.1.0",
        "needs a release",
    ),
    (
        "gh attestation verify manager-linux-amd64 --repo quartet-operator/quartet-operator",
        "needs a release",
    ),
    (
        "cosign verify ghcr.io/quartet-operator/quartet-operator:v0.1.0 --certificate-oidc-issuer https://token.actions.githubusercontent.com --certificate-identity https://github.com/quartet-operator/quartet-operator/.github/workflows/release.yml@refs/tags/v0.1.0",
        "needs a release",
    ),
    (
        "gh attestation verify oci://ghcr.io/quartet-operator/quartet-operator:v0.1.0 --repo quartet-operator/quartet-operator",
        "needs a release",
    ),
    (
        "oc mirror --v2 --config=imageset-config.yaml --workspace=file://mirror docker://registry.example.com/mirror",
        "needs a tool of OpenShift and a release",
    ),
    ("make release-dry-run", "builds the manager for ten minutes"),
];

/// A file and a folder of files whose commands are run by CI and by `make test-e2e`.
const TYPED_BY_CI: &str = ".ci/run";
const TYPED_BY_E2E: &str = "tests/e2e";

/// What stands for what in them.
const NAMES: [(&str, &str); 6] = [
    ("{NAMESPACE}", "quartet-operator-system"),
    ("{IMAGES}", "ghcr.io/quartet-operator/quartet-operator"),
    ("{NEXT}", "0.1.1"),
    (
        "{MANAGER}",
        "deployment/quartet-operator-controller-manager",
    ),
    ("\\\"", "\""),
    ("{{", "{"),
];

/// Where a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    Elsewhere,
    Nowhere,
}

/// The text of those files as it is typed.
pub(crate) struct Elsewhere(String);

impl Elsewhere {
    pub(crate) fn read(root: &Path) -> Self {
        let e2e = fs::read_dir(root.join(TYPED_BY_E2E)).expect("a folder");
        let e2e = e2e.map(|entry| entry.expect("an entry").path());
        let text: Vec<String> = [root.join(TYPED_BY_CI)]
            .into_iter()
            .chain(e2e)
            .map(|path| fs::read_to_string(path).expect("a text"))
            .collect();
        Self::of(&text.join("\n"))
    }

    fn of(source: &str) -> Self {
        let is_remark = |line: &&str| ["//", "#"].iter().any(|mark| line.trim().starts_with(mark));
        let lines = source.lines().filter(|line| !is_remark(line));
        let mut text = String::new();
        for line in lines {
            // A line of a string literal that goes on in the next one.
            match text.strip_suffix("\\\n") {
                Some(begun) => text = format!("{begun}{}\n", line.trim_start()),
                None => text.push_str(&format!("{line}\n")),
            }
        }
        for (name, value) in NAMES {
            text = text.replace(name, value);
        }
        Self(text.replace("}}", "}"))
    }

    /// What the document shows of the output is compared here in any case.
    pub(crate) fn place(&self, command: &str, shown: &str) -> Place {
        if LISTED.iter().any(|(listed, _)| *listed == command) {
            Place::Nowhere
        } else if shown.is_empty() && self.types(command) {
            Place::Elsewhere
        } else {
            Place::Here
        }
    }

    /// Whether the command is there, whatever more arguments it has.
    fn types(&self, command: &str) -> bool {
        let is_word = |one: char| one.is_alphanumeric() || "-_./=".contains(one);
        self.0.match_indices(command).any(|(start, _)| {
            let before = self.0[..start].chars().next_back();
            let after = self.0[start + command.len()..].chars().next();
            ![before, after].into_iter().flatten().any(is_word)
        })
    }
}

#[test]
fn a_command_is_typed_elsewhere_only_as_a_whole() {
    let source = "// make lint\n    shell.must(&format!(\n        \"kubectl -n {NAMESPACE} get \\\n     \
                  pods\"));\nstage test 45 make test-docs\n";
    let elsewhere = Elsewhere::of(source);
    let place = |command| elsewhere.place(command, "");
    assert_eq!(
        place("kubectl -n quartet-operator-system get pods"),
        Place::Elsewhere
    );
    assert_eq!(place("make test-docs"), Place::Elsewhere);
    assert_eq!(place("make test"), Place::Here);
    assert_eq!(place("make lint"), Place::Here);
    assert_eq!(place("make bench"), Place::Nowhere);
    assert_eq!(elsewhere.place("make test-docs", "output"), Place::Here);
}
