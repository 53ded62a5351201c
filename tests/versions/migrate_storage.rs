//! The subcommand `manager migrate-storage`: killed halfway, completed, and run again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use quartet_operator::kinds::memcached;
use quartet_operator::packaging::{self, kinds};
use quartet_versions::Kind;
use serde_json::{Value, json};
use testkit::{Limit, Manager};

use crate::environment::{
    DEADLINE, TestEnv, collection, crd_path, is_true, list_path, object, path,
};
use crate::original;
use crate::shared::BOTH_VERSIONS;

const MEMCACHED: &Kind = &memcached::KIND;
const OBJECTS: usize = 300;
const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";

/// Returns resourceVersion by name: it changes when an object is rewritten.
async fn resource_versions(env: &TestEnv) -> BTreeMap<String, String> {
    let list = env.get(&list_path(MEMCACHED, &MEMCACHED.hub)).await;
    let list = list.expect("a list");
    let items = list["items"].as_array().expect("items").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    items
        .map(|item| {
            let metadata = &item["metadata"];
            (text(&metadata["name"]), text(&metadata["resourceVersion"]))
        })
        .collect()
}

fn changed(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> usize {
    assert_eq!(one.len(), other.len());
    one.iter()
        .filter(|(name, version)| other[*name] != **version)
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_migration_that_is_killed_halfway_is_completed_by_the_next_run() {
    let env = TestEnv::with_api_server().await;
    original::install_crds(&env).await;
    let collection = collection(MEMCACHED, &MEMCACHED.spoke, "default");
    stream::iter(0..OBJECTS)
        .map(|number| {
            let name = format!("m-{number}");
            let object = object(MEMCACHED, &MEMCACHED.spoke, &name, json!({"size": 0}));
            let (env, collection) = (&env, &collection);
            async move { env.create(collection, &object).await.map(drop) }
        })
        .buffer_unordered(16)
        .try_collect::<()>()
        .await
        .expect("created");

    env.apply_crds(packaging::both_versions).await;
    let before = resource_versions(&env).await;
    assert_eq!(before.len(), OBJECTS);

    // Conversion stops halfway, and so does the migration; then it is killed.
    let middle = env.webhooks.conversions() + 500.0;
    let mut killed = Manager::spawn(env.manager(&["migrate-storage", "--page-size=50"]));
    let mut limit = Limit::new(DEADLINE);
    while env.webhooks.conversions() < middle {
        assert!(!limit.is_over(), "never there");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    env.webhooks.stop_serving().await;
    killed.kill();
    env.webhooks.restart().await;
    // Writes that the API server had started may still be completed.
    let mut half_way = resource_versions(&env).await;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = resource_versions(&env).await;
        if changed(&half_way, &now) == 0 {
            break;
        }
        half_way = now;
    }
    let first = changed(&before, &half_way);
    println!("killed after {first} of {OBJECTS}");
    assert!((1..OBJECTS).contains(&first), "{first}");
    let found = env.stored_versions(MEMCACHED).await;
    assert_eq!(found, json!(["v1alpha1", "v1"]));

    let (code, said, _) = env.subcommand(&["migrate-storage", "--page-size=50"]).await;
    assert_eq!(code, 0);
    let after = resource_versions(&env).await;
    assert_eq!(changed(&before, &after), OBJECTS, "all are rewritten");
    let second = changed(&half_way, &after);
    let found = first + second;
    assert_eq!(found, OBJECTS, "and none of them is rewritten twice");
    let expected = format!("{second} of {OBJECTS} objects rewritten, stored in v1 only");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(env.stored_versions(MEMCACHED).await, json!(["v1"]));

    let started = Instant::now();
    let (code, said, _) = env.subcommand(&["migrate-storage"]).await;
    println!("with nothing to do: {:?}", started.elapsed());
    assert_eq!(code, 0);
    let all = kinds().len();
    assert_eq!(said.matches("nothing to do").count(), all, "{said}");
    assert_eq!(changed(&after, &resource_versions(&env).await), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rewritten_object_differs_only_in_its_resource_version() {
    let env = TestEnv::with_api_server().await;
    env.apply_crds(packaging::transition).await;
    let in_spoke = path(MEMCACHED, &MEMCACHED.spoke, "default", "m");
    let target = format!("{in_spoke}?fieldManager=user");
    let applied = object(MEMCACHED, &MEMCACHED.spoke, "m", json!({"size": 2}));
    env.apply(&target, &applied).await.expect("applied");
    env.apply_crds(packaging::both_versions).await;
    let path = path(MEMCACHED, &MEMCACHED.hub, "default", "m");
    let mut before = env.get(&path).await.expect("the object");
    let (code, said, _) = env.subcommand(&["migrate-storage"]).await;
    assert_eq!(code, 0);
    assert!(said.contains("1 of 1 objects rewritten"), "{said}");
    let after = env.get(&path).await.expect("the object");
    let rewritten = &after["metadata"]["resourceVersion"];
    assert_ne!(before["metadata"]["resourceVersion"], *rewritten);
    before["metadata"]["resourceVersion"] = rewritten.clone();
    assert_eq!(before, after);

    // As docs/operations.md says: of an Apply until the same manager applies the new version, of an
    // Update until all entries are removed.
    let remaining = "memcacheds.cache.example.com: 1 objects have managedFields in v1alpha1, of";
    let of_apply = format!("{remaining} user (Apply): ");
    assert!(said.contains(&of_apply), "{said}");
    let updated = json!({"metadata": {"labels": {"a": "b"}}});
    let as_editor = format!("{in_spoke}?fieldManager=editor");
    env.merge(&as_editor, updated).await.expect("updated");
    let target_in_hub = format!("{path}?fieldManager=user");
    let apply = async || {
        let applied = object(MEMCACHED, &MEMCACHED.hub, "m", json!({"replicas": 2}));
        env.apply(&target_in_hub, &applied).await.expect("applied");
    };
    apply().await;
    let (_, said, _) = env.subcommand(&["migrate-storage", "--dry-run"]).await;
    let of_update = format!("{remaining} editor (Update): ");
    assert!(said.contains(&of_update), "{said}");
    let none = r#"[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]"#;
    let patch = ["patch", "memcached", "m", "--type=json", "-p", none];
    let (patched, told) = env.kubectl(&patch, &Value::Null);
    assert!(patched, "{told}");
    apply().await;
    let (code, said, _) = env.subcommand(&["migrate-storage"]).await;
    assert_eq!(code, 0);
    assert!(!said.contains("managedFields"), "{said}");
}

/// The ServiceAccount of `config/migrate-storage` has the permissions that the migration needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_job_has_the_permissions_that_a_migration_needs() {
    const ACCOUNT: &str =
        "system:serviceaccount:quartet-operator-system:quartet-operator-storage-migration";
    let env = TestEnv::with_api_server().await;
    original::install_crds(&env).await;
    let stored = original::kinds();
    for kind in &stored {
        let spec = match kind.kind {
            "ElasticWeb" => {
                json!({"image": "nginx", "port": 30_090, "singlePodsQPS": 1, "totalQPS": 0})
            }
            "Nginx" => json!({"count": 0}),
            _ => json!({"size": 0}),
        };
        let made = object(kind, &kind.spoke, "stored-before", spec);
        let collection = collection(kind, &kind.spoke, "default");
        env.create(&collection, &made).await.expect("created");
    }
    env.apply_crds(packaging::both_versions).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/migrate-storage");
    let files = ["role", "role_binding"].map(|file| format!("{folder}/{file}.yaml"));
    for file in &files {
        let (applied, said) = env.kubectl(&["apply", "-f", file], &Value::Null);
        assert!(applied, "{said}");
    }
    let kubeconfig = std::fs::read_to_string(env.cluster.kubeconfig()).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).expect("YAML");
    kubeconfig["users"][0]["user"]["as"] = ACCOUNT.into();
    let file = env.cluster.dir().join("migration.kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).expect("written");
    let kubeconfig = format!("--kubeconfig={}", file.display());

    // Permissions are those of this account: it cannot do anything else.
    let refused = ["--as", ACCOUNT, "delete", "memcached", "stored-before"];
    let (deleted, said) = env.kubectl(&refused, &Value::Null);
    assert!(!deleted && said.contains("forbidden"), "{said}");
    let (code, said, _) = env.subcommand(&["migrate-storage", &kubeconfig]).await;
    assert_eq!(code, 0, "{said}");
    let found = said.matches("1 of 1 objects rewritten").count();
    assert_eq!(found, stored.len(), "{said}");
    for kind in kinds() {
        assert_eq!(env.stored_versions(kind).await, json!([kind.hub.name]));
    }
    for file in files {
        let (deleted, said) = env.kubectl(&["delete", "-f", &file], &Value::Null);
        assert!(deleted, "{said}");
    }
}

/// All objects of a kind in the new version, without what every write changes.
async fn objects(env: &TestEnv, kind: &Kind) -> Value {
    let list = env.get(&list_path(kind, &kind.hub)).await;
    let mut items = list.expect("a list")["items"].take();
    for item in items.as_array_mut().expect("items") {
        item["metadata"]["resourceVersion"].take();
    }
    items
}

/// Kubernetes' own migration, since 1.35. It fails at a negative number, which every write is rejected for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kubernetes_own_migration_is_as_ours_but_for_negative_numbers() {
    let env = TestEnv::with_api_server().await;
    if env.get(MIGRATIONS).await.is_err() {
        return;
    }
    original::install_crds(&env).await;
    for kind in original::kinds() {
        for (name, spec) in original::specs(kind) {
            let is_wanted = ["usual", "without-spec"].contains(&name)
                || (name, kind.kind) == ("negative", MEMCACHED.kind);
            if is_wanted {
                let made = object(kind, &kind.spoke, name, spec);
                let collection = collection(kind, &kind.spoke, "default");
                env.create(&collection, &made).await.expect("created");
            }
        }
    }
    env.apply_crds(packaging::both_versions).await;
    env.cluster.start_controllers().expect("controllers");
    let mut before = Vec::new();
    for kind in original::kinds() {
        before.push(objects(&env, kind).await);
        let migration = json!({
            "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
            "metadata": {"name": kind.plural},
            "spec": {"resource": {"group": kind.group, "resource": kind.plural}},
        });
        env.create(MIGRATIONS, &migration).await.expect("created");
    }
    for (kind, before) in original::kinds().into_iter().zip(before) {
        let path = format!("{MIGRATIONS}/{}", kind.plural);
        let is_over = |it: &Value| is_true(it, "Succeeded").or(is_true(it, "Failed")).is_some();
        let ended = env.until(&path, "ended", is_over).await;
        if kind.kind == MEMCACHED.kind {
            let said = ended["status"].to_string();
            assert!(said.contains("should be a non-negative integer"), "{said}");
            continue;
        }
        assert!(is_true(&ended, "Succeeded").is_some(), "{ended}");
        let is_cut = |crd: &Value| crd["status"]["storedVersions"] == json!([kind.hub.name]);
        env.until(&crd_path(kind), "cut", is_cut).await;
        let (_, said, _) = env.subcommand(&["migrate-storage", "--dry-run"]).await;
        let crd = format!("{}.{}", kind.plural, kind.group);
        let nothing = format!("{crd}: stored in {} only, nothing to do", kind.hub.name);
        assert!(said.contains(&nothing), "{said}");
        // An API server that knows no other version reads them all.
        let mut crd = serde_json::to_value(packaging::both_versions(kind)).expect("JSON");
        let versions = crd["spec"]["versions"].as_array_mut().expect("versions");
        versions.retain(|version| version["name"] == kind.hub.name);
        env.apply_crd(kind, crd).await.expect("applied");
        env.until_gone(&list_path(kind, &kind.spoke)).await;
        assert_eq!(objects(&env, kind).await, before, "{kind:?}");
    }
}

/// A Job that has ended has two conditions that are true. kubectl rejects an expression that matches both.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_documented_wait_ends_when_the_job_succeeds_and_when_it_fails() {
    const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
    let env = BOTH_VERSIONS.test_env().await;
    let mut lines = include_str!("../../docs/operations.md").lines();
    let is_wait = |line: &&str| line.contains(" wait ") && line.ends_with("-storage-migration");
    let command = lines.find(is_wait).expect("a command").replace('\'', "");
    let command = command.replace("10m", "1s");
    let command = command.replace("quartet-operator-system", "default");
    for (job, types) in [
        ("runs", &[][..]),
        ("succeeds", &["SuccessCriteriaMet"]),
        ("complete", &["SuccessCriteriaMet", "Complete"]),
        ("fails", &["FailureTarget"]),
        ("failed", &["FailureTarget", "Failed"]),
    ] {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]});
        let spec = json!({"managedBy": "example.com/test", "template": {"spec": pod}});
        let object = json!({"metadata": {"name": job}, "spec": spec});
        env.create(JOBS, &object).await.expect("created");
        let time = "2026-01-01T00:00:00Z";
        let condition = |it| json!({"type": it, "status": "True", "lastTransitionTime": time});
        let conditions = Vec::from_iter(types.iter().map(condition));
        let mut status = json!({"startTime": time, "conditions": conditions});
        if types.contains(&"Complete") {
            status["completionTime"] = json!(time);
        }
        let target = format!("{JOBS}/{job}/status");
        let written = env.merge(&target, json!({"status": status})).await;
        written.expect("a status");
        let command = command.replace("quartet-operator-storage-migration", job);
        let arguments: Vec<_> = command.split(' ').skip(2).collect();
        let (ended, said) = env.kubectl(&arguments, &Value::Null);
        assert_eq!(ended, job != "runs", "{command}: {said}");
    }
}
