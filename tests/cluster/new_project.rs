//! A project that `quartet-packaging new` writes in an empty folder, with two more kinds of `add`: its code compiles,
//! its bundle is valid, and its operator serves each version, with names of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use testkit::{DEADLINE, EVENT, Kind, Limit, Manager, TestEnv, bash_line, kind, sum};

const CACHE: Kind = kind("cache.example.org/v1alpha1", "Cache", "caches");
const QUEUE: Kind = kind("shop.my-own.example/v2", "Queue", "queues");
/// A kind with one version.
const ZONE: Kind = kind("dns.example.org/v1beta2", "DNSZone", "dnszones");
const LEASE: Kind = kind("coordination.k8s.io/v1", "Lease", "leases");
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
const NEW: &str = "quartet-packaging new cache-operator --domain example.org --group cache --kind Cache \
                   --versions v1alpha1,v1";
/// One that has no kind with two versions.
const ONE: &str = "quartet-packaging new zone-operator --domain example.org --group dns --kind Zone --versions v1";
const KINDS: [&str; 2] = [
    "KIND=Queue GROUP=shop.my-own.example VERSIONS=v1,v2",
    "KIND=DNSZone GROUP=dns VERSIONS=v1beta2",
];
/// Several times what a build takes on a busy machine.
const BUILD: Duration = Duration::from_secs(900);

#[tokio::test]
async fn a_new_project_compiles_and_its_operator_serves_both_versions() {
    let env = TestEnv::without_manager("project").await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-project");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let devcluster = Path::new(env!("CARGO_BIN_EXE_manager")).with_file_name("devcluster");
    let programs = devcluster.parent().expect("a folder").display();
    let run = |line: &str| {
        // The dependencies are compiled once for both; what belongs to the project is in its folder.
        let line = format!(
            "unset ${{!CARGO_@}} MAKEFLAGS MAKELEVEL; export PATH={programs}:$PATH CARGO_BUILD_BUILD_DIR={programs}/..; {line}"
        );
        let mut bash = Command::new("setpriv");
        bash.args(bash_line(BUILD, &line)).envs(env.variables());
        bash.current_dir(&folder)
            .status()
            .expect("bash runs")
            .success()
    };
    let must = |line: &str| assert!(run(line), "{line}");
    must(NEW);
    assert!(!run(NEW), "it overwrites");
    for kind in KINDS {
        must(&format!(
            "make -C cache-operator SCAFFOLD=quartet-packaging kind {kind}"
        ));
    }
    must("make -C cache-operator manifests && cd cache-operator && cargo fmt --check");
    must("rustfmt --edition 2024 --check cache-operator/src/kinds/*.rs");
    let validate = concat!(env!("CARGO_MANIFEST_DIR"), "/hack/bundle-validate.sh");
    must(&format!(
        "cd cache-operator && {validate} $PWD/bundle $PWD/catalog"
    ));
    must(
        "for overlay in default certmanager olm prometheus; do kubectl kustomize cache-operator/config/$overlay || exit; done",
    );
    let hack = concat!(env!("CARGO_MANIFEST_DIR"), "/hack");
    must(&format!(
        "$({hack}/build-go.sh {hack}/helm)/helm template cache cache-operator/dist/chart --namespace mine | grep -c 'namespace: mine'"
    ));
    must(ONE);
    must(&format!(
        "cd zone-operator && {validate} $PWD/bundle $PWD/catalog && ! grep -rE 'type: ConversionWebhook|strategy: Webhook' bundle"
    ));
    must("cd cache-operator && make install && cargo build --locked --bin manager");

    let port = devcluster::free_port().expect("a port");
    let flags = format!(
        "--enable-webhooks=true --webhook-port={port} --watch-namespace={0} --leader-elect \
         --leader-election-namespace={0}",
        env.namespace
    );
    let flags: Vec<_> = flags.split(' ').map(str::to_owned).collect();
    let manager = Manager::command(env.kubeconfig(), &flags, &[]);
    let mut command = Command::new(&devcluster);
    command
        .args(["webhooks", "--root=cache-operator", "--url"])
        .arg(format!("https://127.0.0.1:{port}"))
        .args(["--", "cache-operator/target/debug/manager"])
        .args(manager.get_args())
        .envs(env.variables())
        .current_dir(&folder);
    let manager = Manager::spawn(command);
    let mut limit = Limit::new(DEADLINE);
    let sample = CACHE.object(CACHE.plural, json!({"size": 2}));
    while env.apply(&sample).await.is_err() {
        limit
            .pause(|| format!("no webhooks: {}", manager.log()))
            .await;
    }
    env.until_ready(CACHE, CACHE.plural).await;
    for kind in [QUEUE, ZONE] {
        let object = kind.object(kind.plural, json!({"replicas": 1}));
        env.apply(&object).await.expect("applied");
        env.until_ready(kind, kind.plural).await;
    }
    for (kind, version, other, spec) in [
        (CACHE, "v1alpha1", "v1", json!({"replicas": 2})),
        (QUEUE, "v2", "v1", json!({"size": 1})),
    ] {
        let path = env.path(kind, kind.plural).replace(version, other);
        let converted = env.api.get(&path).await.expect("the other version");
        assert_eq!(converted["spec"], spec);
    }
    let definition = format!("{DEFINITION}dnszones.dns.example.org");
    let definition = env.api.get(&definition).await.expect("a CRD")["spec"].take();
    assert_eq!(definition["conversion"], json!({"strategy": "None"}));
    assert_eq!(definition["versions"].as_array().map(Vec::len), Some(1));
    for (kind, field) in [(CACHE, "size"), (QUEUE, "replicas"), (ZONE, "replicas")] {
        let many = kind.object(kind.plural, json!({field: 2000}));
        let refused = env.apply(&many).await.expect_err("too many pods").message;
        let expected = format!("spec.{field}: Invalid value: 2000");
        assert!(refused.contains(&expected), "{refused}");
    }
    has_its_own_names(&env, &manager).await;

    for kind in [CACHE, QUEUE, ZONE] {
        env.delete(kind, kind.plural).await;
        env.until_gone(kind, kind.plural).await;
    }
    manager.stop();
    must("make -C cache-operator uninstall");
}

/// In metrics, Lease and Events.
async fn has_its_own_names(env: &TestEnv, manager: &Manager) {
    let (code, metrics) = manager.get("metrics", "/metrics").await;
    assert_eq!(code, 200);
    let decisions = "cache_operator_admission_decisions_total";
    let decided = sum(&metrics, decisions, &["kind=\"DNSZone\""]);
    assert!(decided > 0.0, "{metrics}");
    assert!(!metrics.contains("quartet"), "{metrics}");
    let lease = env.get(LEASE, "cache-operator.example.org").await;
    let holder = lease.expect("a Lease")["spec"]["holderIdentity"].take();
    assert!(holder.as_str().is_some_and(|it| !it.is_empty()), "{holder}");
    let paused = json!({"cache-operator.example.org/paused": "true"});
    let paused = json!({"metadata": {"annotations": paused}});
    env.patch(ZONE, ZONE.plural, paused).await.expect("patched");
    let is_written = |event: &Value| {
        event["regarding"]["kind"] == "DNSZone"
            && event["reason"] == "Paused"
            && event["reportingController"] == "cache-operator"
    };
    let mut limit = Limit::new(DEADLINE);
    while !env.list(EVENT).await.iter().any(is_written) {
        limit.pause(|| "no Event").await;
    }
}
