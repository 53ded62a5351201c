//! The check of statuses (`support/trusted`) finds a reconciler that writes `Ready=True` while a
//! child does not match its generation. It runs on an API server of its own, because its audit log
//! must not be read as that of a manager.

use std::time::Duration;

use devcluster::{Cluster, Options};
use quartet_operator::kinds::OPERATORS;
use quartet_workload::{Resource, Settings};
use serde_json::{Value, json};

use crate::trusted::{self, RACE};
use testkit::{DEPLOYMENT, Kind, MEMCACHED, TestEnv};

/// A field manager name that the check takes for the operator's.
const LIAR: &str = "quartet-operator/liar";

struct Liar<'a>(&'a TestEnv);

impl Liar<'_> {
    async fn patch(&self, kind: Kind, name: &str, rest: &str, form: &str, body: &Value) -> Value {
        let target = format!("{}{rest}", self.0.path(kind, name));
        let request = http::Request::patch(target)
            .header(http::header::CONTENT_TYPE, form)
            .header(http::header::USER_AGENT, LIAR)
            .body(body.to_string().into_bytes())
            .expect("a request");
        self.0
            .api
            .client
            .request(request)
            .await
            .expect("a response")
    }

    /// Writes that the resource is Ready.
    async fn write_ready(&self, name: &str, generation: i64) {
        // Each status differs: one without a change would have the revision of the one before.
        let now = jiff::Timestamp::now().to_string();
        let ready = json!({"type": "Ready", "status": "True", "reason": "RolloutComplete",
            "message": now, "lastTransitionTime": now});
        let status = json!({"status": {"observedGeneration": generation, "conditions": [ready]}});
        let form = "application/merge-patch+json";
        self.patch(MEMCACHED, name, "/status", form, &status).await;
    }

    /// Applies the Deployment of the resource with this change; its annotation has this generation.
    async fn apply(&self, resource: &Value, stamp: i64, change: fn(&mut Value)) -> Value {
        let mut body = deployment(resource);
        let applied = json!({"generation": stamp, "spec": "", "desired": ""}).to_string();
        body["metadata"]["annotations"] = json!({"quartet-operator.example.com/applied": applied});
        change(&mut body);
        let name = body["metadata"]["name"].as_str().expect("a name");
        let rest = "?fieldManager=quartet-operator-memcached&force=true";
        let form = "application/apply-patch+yaml";
        self.patch(DEPLOYMENT, name, rest, form, &body).await
    }
}

/// Returns the Deployment that a correct manager would apply.
fn deployment(resource: &Value) -> Value {
    let operator = OPERATORS[0];
    let kind = operator.kind();
    let text = |field: &str| resource["metadata"][field].as_str().unwrap_or_default();
    let spec = &resource["spec"];
    let resource = Resource {
        namespace: text("namespace").to_owned(),
        name: text("name").to_owned(),
        uid: text("uid").to_owned(),
        generation: resource["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default(),
        api_version: MEMCACHED.api_version.to_owned(),
        spec: quartet_versions::conversion::hub_spec(kind, &kind.spoke, spec, None),
        status: Default::default(),
        paused: None,
    };
    let desired = operator.desired(&resource, &Settings::default());
    let children = desired.expect("a spec");
    children[0].body.clone()
}

/// Writes the status as the Deployment controller does when the rollout is complete.
async fn complete_rollout(env: &TestEnv, name: &str) {
    let deployment = env.get(DEPLOYMENT, name).await.expect("a Deployment");
    let replicas = &deployment["spec"]["replicas"];
    let status = json!({"status": {
        "observedGeneration": deployment["metadata"]["generation"], "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
    }});
    env.patch_status(DEPLOYMENT, name, status).await;
}

#[tokio::test]
async fn a_reconciler_that_writes_ready_too_early_is_found_each_time() {
    let starting = || Cluster::start_api_server(Options::default());
    let starting = tokio::task::spawn_blocking(starting);
    let cluster = starting.await.expect("no panic").expect("an API server");
    let env = TestEnv::on(cluster.environment(), "liar").await;
    env.install_crds().await;
    let liar = Liar(&env);
    let log = cluster.audit_log();
    let mut expected = Vec::new();
    let mut checked = 0;
    // Counts the findings after each status; the audit log is read from its beginning.
    let mut finds = |expected_now: &[&str]| {
        checked += 1;
        expected.extend(expected_now.iter().map(ToString::to_string));
        let report = trusted::check(&log);
        assert_eq!(report.checked, checked);
        assert!(report.unknown.is_empty(), "{:#?}", report.unknown);
        let found = &report.violations;
        assert_eq!(
            found.len(),
            expected.len(),
            "{found:#?} instead of {expected:#?}"
        );
        let all = expected
            .iter()
            .all(|it| found.iter().any(|one| one.contains(it)));
        assert!(all, "{found:#?} instead of {expected:#?}");
    };

    let first = env.apply(&MEMCACHED.object("a", json!({"size": 1}))).await;
    liar.write_ready("a", 1).await;
    finds(&["there is none"]);

    liar.apply(&first.expect("applied"), 1, |_| {}).await;
    liar.write_ready("a", 1).await;
    finds(&["its rollout is not complete"]);

    complete_rollout(&env, "a").await;
    liar.write_ready("a", 1).await;
    finds(&[]); // for once it is true

    let second = env.apply(&MEMCACHED.object("a", json!({"size": 2}))).await;
    liar.write_ready("a", 2).await;
    finds(&["/spec/replicas is 1 instead of 2"]);
    liar.write_ready("a", 1).await;
    finds(&[]); // of the generation before it is true

    let second = second.expect("applied");
    let without = |body: &mut Value| {
        body["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["sh"]);
    };
    liar.apply(&second, 2, without).await;
    complete_rollout(&env, "a").await;
    liar.write_ready("a", 2).await;
    finds(&["/command is [\"sh\"] instead of [\"memcached\"]"]);

    let finalizers = |held: Value| {
        let patch = json!({"metadata": {"finalizers": held}});
        env.patch(DEPLOYMENT, "a", patch)
    };
    liar.apply(&second, 2, |_| {}).await;
    complete_rollout(&env, "a").await;
    let held = finalizers(json!(["example.com/held"])).await;
    held.expect("patched");
    env.delete(DEPLOYMENT, "a").await;
    complete_rollout(&env, "a").await;
    // Later than a race: the manager could have seen it.
    tokio::time::sleep(RACE + Duration::from_millis(200)).await;
    liar.write_ready("a", 2).await;
    finds(&["it is being deleted"]);

    // The check of the whole run must not read this log.
    std::fs::remove_file(&log).expect("the audit log");
}
