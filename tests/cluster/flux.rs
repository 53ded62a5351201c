//! The product beside Flux: the libraries of kustomize-controller apply, wait, compare and prune.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::webhooks;
use testkit::{
    DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, TestEnv, built, condition,
    is_ready,
};

pub(crate) const KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];

/// One object of each kind, as a repository has it: in the original version, or in the new one, with labels.
pub(crate) fn folder(namespace: &str, is_new: bool, label: &str) -> Vec<Value> {
    let specs = if is_new {
        json!([
            {"replicas": 1, "memory": 128, "service": {"enabled": true}},
            {"replicas": 1, "service": {}},
            {
                "image": "nginx:1", "service": {"nodePort": 30110},
                "capacity": {"perPodQPS": 10, "targetQPS": 10},
            },
            {"replicas": 1, "scheduling": {"tolerations": [{"operator": "Exists"}]}},
        ])
    } else {
        json!([
            {"size": 2},
            {"count": 2},
            {"image": "nginx:1", "port": 30110, "singlePodsQPS": 10, "totalQPS": 20},
            {"size": 2},
        ])
    };
    let object = |(kind, spec): (Kind, &Value)| {
        let mut object = kind.object(kind.plural, spec.clone());
        let (group, original) = kind.api_version.split_once('/').expect("a group");
        let version = match (is_new, kind.kind) {
            (false, _) => original,
            (true, "ElasticWeb") => "v2",
            (true, _) => "v1",
        };
        object["apiVersion"] = json!(format!("{group}/{version}"));
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["labels"] = json!({"app": label});
        object
    };
    let specs = specs.as_array().expect("a list");
    KINDS.into_iter().zip(specs).map(object).collect()
}

/// Runs one command of hack/flux; returns whether it succeeded, and its output.
fn flux(env: &TestEnv, command: &str, objects: &[Value]) -> (bool, String) {
    let mut child = Command::new(built("hack/flux").join("flux"))
        .args(command.split(' '))
        .env("KUBECONFIG", env.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("flux starts");
    let objects: Vec<String> = objects.iter().map(Value::to_string).collect();
    let mut input = child.stdin.take().expect("a pipe");
    let written = input.write_all(objects.join("\n---\n").as_bytes());
    written.expect("read");
    drop(input);
    let output = child.wait_with_output().expect("flux ends");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    println!("$ flux {command}\n{text}");
    (output.status.success(), text)
}

/// Runs a command whose lines all have this action.
fn all_are(env: &TestEnv, command: &str, objects: &[Value], action: &str) {
    let (succeeded, text) = flux(env, command, objects);
    let is_so = text.lines().all(|line| line.ends_with(action));
    assert!(succeeded && is_so, "flux {command}: {text}");
    assert_eq!(text.lines().count(), objects.len(), "{text}");
}

#[tokio::test]
async fn flux_applies_waits_finds_drift_changes_versions_and_prunes() {
    let (_turn, env) = webhooks::test_env("flux", &[]).await;
    let new = folder(&env.namespace, true, "new");
    all_are(&env, "apply", &new, "created");
    wait(&env, &new).await;
    all_are(&env, "diff", &new, "unchanged");
    all_are(&env, "apply", &new, "unchanged");

    // What somebody changed by hand is found and put right.
    let patch = json!({"spec": {"size": 3}});
    let changed = env.patch(HELLO_WORLD, HELLO_WORLD.plural, patch);
    changed.await.expect("changed");
    let (succeeded, found) = flux(&env, "diff", &new);
    assert!(succeeded && found.contains("HelloWorld") && found.contains("configured"));
    let (succeeded, _) = flux(&env, "apply", &new);
    assert!(succeeded);
    all_are(&env, "diff", &new, "unchanged");

    // The repository's history is rolled back to the original version, and forward again.
    for (is_new, label) in [(false, "old"), (true, "new")] {
        let objects = folder(&env.namespace, is_new, label);
        all_are(&env, "apply", &objects, "configured");
        wait(&env, &objects).await;
        all_are(&env, "diff", &objects, "unchanged");
    }
    all_are(&env, "delete", &new, "deleted");
    for kind in KINDS {
        env.until_gone(kind, kind.plural).await;
    }
}

/// Waits as kustomize-controller does with `wait: true`: then all are ready.
async fn wait(env: &TestEnv, objects: &[Value]) {
    let (succeeded, text) = flux(env, "wait", objects);
    assert!(succeeded, "{text}\n{}", env.log());
    specs(env).await;
}

/// The specs of the resources, in the new version, and of their Deployments; all are ready.
pub(crate) async fn specs(env: &TestEnv) -> Vec<Value> {
    let mut specs = Vec::new();
    for kind in KINDS {
        let object = env.get(kind, kind.plural).await.expect("it");
        assert!(is_ready(&object), "{object:#}");
        let path = env.path(kind, kind.plural).replace("/v1/", "/v2/");
        let new = env.api.get(&path.replace("/v1alpha1/", "/v1/")).await;
        let child = env.get(DEPLOYMENT, kind.plural).await.expect("the child");
        specs.push(json!([new.expect("it")["spec"], child["spec"]]));
    }
    specs
}

/// What kstatus and the script of docs/gitops.md say of one object.
fn health(env: &TestEnv, object: Value) -> (String, String) {
    let page = include_str!("../../docs/gitops.md");
    let script = page.split("```lua\n").nth(1).expect("a script");
    let script = script.split("```").next().expect("its end");
    let file = std::env::temp_dir().join(format!("health-{}.lua", std::process::id()));
    std::fs::write(&file, script).expect("written");
    let health = format!("health {}", file.display());
    let [kstatus, argo] = ["status", &health].map(|command| {
        let (succeeded, said) = flux(env, command, std::slice::from_ref(&object));
        assert!(succeeded, "{said}");
        let word = said.trim().rsplit(' ').next();
        word.unwrap_or_default().to_owned()
    });
    std::fs::remove_file(file).expect("removed");
    (kstatus, argo)
}

#[tokio::test]
async fn health_checks_say_what_the_conditions_say() {
    let mut env = TestEnv::without_manager("health").await;
    let is = |(kstatus, argo): (String, String), wanted: [&str; 2]| {
        assert_eq!([&*kstatus, &*argo], wanted);
    };
    let done = MEMCACHED.object("done", json!({"size": 1}));
    let created = env.apply(&done).await.expect("applied");
    is(health(&env, created), ["InProgress", "Progressing"]);

    // A child of that name is another's.
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "taken"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        },
    });
    env.apply(&theirs).await.expect("applied");
    for name in ["taken", "paused", "leaving"] {
        let mut made = MEMCACHED.object(name, json!({"size": 1}));
        if name == "paused" {
            let paused = json!({"quartet-operator.example.com/paused": "true"});
            made["metadata"]["annotations"] = paused;
        }
        if name == "leaving" {
            made["metadata"]["finalizers"] = json!(["example.com/wait"]);
        }
        env.apply(&made).await.expect("applied");
    }
    env.start_manager(&[]);
    let done = env.until_ready(MEMCACHED, "done").await;
    is(health(&env, done.clone()), ["Current", "Healthy"]);
    let mut changed = done;
    changed["metadata"]["generation"] = json!(2);
    is(health(&env, changed), ["InProgress", "Progressing"]);
    let taken = env.until_degraded(MEMCACHED, "taken", "NameConflict").await;
    is(health(&env, taken), ["Failed", "Degraded"]);
    let paused = env.until(MEMCACHED, "paused", "Paused", |it| {
        condition(it, "Ready").is_some_and(|ready| ready["reason"] == "Paused")
    });
    is(health(&env, paused.await), ["InProgress", "Suspended"]);
    env.until_ready(MEMCACHED, "leaving").await;
    env.delete(MEMCACHED, "leaving").await;
    let leaving = env.get(MEMCACHED, "leaving").await.expect("it");
    assert_eq!(health(&env, leaving).0, "Terminating");
    let released = json!({"metadata": {"finalizers": null}});
    let released = env.patch(MEMCACHED, "leaving", released);
    released.await.expect("released");
}
