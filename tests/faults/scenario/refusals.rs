//! F07: what the API server or its admission refuses for a while, for what it is. The
//! resource says so in its condition, and nobody asks all the time.

use std::time::Duration;

use faultproxy::{Action, Match};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Scenario;
use super::requests::for_a_time;
use crate::rig::Rig;
use crate::workload::Workload::{Change, Create};
use testkit::{ELASTIC_WEB, Kind, MEMCACHED, NAMESPACE, QUOTA};

const LIMITS: Kind = Kind {
    api_version: "v1",
    kind: "LimitRange",
    plural: "limitranges",
};

/// How long each is in force.
const LONG: Duration = Duration::from_secs(10);

pub(super) fn scenarios() -> Vec<Scenario> {
    let quota = Scenario::new("F07", "a quota allows no Deployment", Create, |rig| {
        quota(rig).boxed()
    });
    let limits = Scenario::new("F07", "a LimitRange allows no pod", Create, |rig| {
        limits(rig).boxed()
    });
    let pods = Scenario::new(
        "F07",
        "the namespace takes restricted pods only",
        Create,
        |rig| restricted(rig).boxed(),
    );
    let policy = Scenario::new(
        "F07",
        "an admission policy denies three replicas",
        Change,
        |rig| policy(rig).boxed(),
    );
    let mut all = vec![quota, limits, pods.short(), policy];
    for long in [5, 60] {
        let name = format!("every apply of a Deployment is answered 422 for {long} s");
        let scenario = Scenario::new("F07", name, Change, move |rig| {
            let invalid = Action::status(422, "Invalid", "made by a test");
            let applies = Match::writes().of("deployments");
            for_a_time(rig, applies, invalid, Duration::from_secs(long)).boxed()
        });
        all.push(if long > 5 { scenario.idle() } else { scenario });
    }
    all
}

/// After the cause is gone: what is blocked from outside is looked at every 15 s, and the
/// ReplicaSet controller doubles its waits as we do.
async fn converge_after(rig: &mut Rig) {
    rig.converge_within(Duration::from_secs(20)).await;
}

async fn quota(rig: &mut Rig) {
    let quota = |count: &str| {
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"},
            "spec": {"hard": {"count/deployments.apps": count}},
        })
    };
    rig.stage.apply(&quota("0")).await.expect("applied");
    let in_force = |quota: &Value| quota["status"]["hard"]["count/deployments.apps"] == "0";
    rig.stage.until(QUOTA, "quota", "in force", in_force).await;
    rig.work().await;
    let (stage, reason) = (&rig.stage, "QuotaExceeded");
    stage.until_degraded(MEMCACHED, "memcached", reason).await;
    sleep(LONG).await;
    stage.apply(&quota("10")).await.expect("applied");
    converge_after(rig).await;
}

async fn limits(rig: &mut Rig) {
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
        "spec": {"limits": [{"type": "Pod", "max": {"memory": "1Ki"}}]},
    });
    rig.stage.apply(&limits).await.expect("applied");
    rig.work().await;
    let (stage, reason) = (&rig.stage, "ReplicaFailure");
    stage.until_degraded(MEMCACHED, "memcached", reason).await;
    stage.delete(LIMITS, "limits").await;
    converge_after(rig).await;
}

async fn restricted(rig: &mut Rig) {
    let level = |level: Value| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    let (stage, namespace) = (&rig.stage, rig.stage.namespace.clone());
    let enforced = stage
        .patch(NAMESPACE, &namespace, level("restricted".into()))
        .await;
    enforced.expect("patched");
    rig.work().await;
    // Its pods may be root's, as the user's image wants it.
    stage
        .until_degraded(ELASTIC_WEB, "elasticweb", "ReplicaFailure")
        .await;
    let lifted = stage.patch(NAMESPACE, &namespace, level(Value::Null)).await;
    lifted.expect("patched");
    converge_after(rig).await;
}

async fn policy(rig: &mut Rig) {
    let name = rig.stage.namespace.clone();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}],
            },
            "validations": [{"expression": "object.spec.replicas < 3", "message": "made by a test"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let stage = &rig.stage;
    stage
        .apply_cluster_wide("validatingadmissionpolicies", &policy)
        .await;
    stage
        .apply_cluster_wide("validatingadmissionpolicybindings", &binding)
        .await;
    // In force some moments after it was written: until a stranger's Deployment is denied.
    let began = std::time::Instant::now();
    let three = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "denied"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let target = format!("/apis/apps/v1/namespaces/{name}/deployments?dryRun=All");
    let denied = || stage.api.create(&target, &three);
    while denied().await.is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "not in force");
        sleep(Duration::from_millis(200)).await;
    }
    rig.work().await;
    stage
        .until_degraded(MEMCACHED, "memcached", "ApplyRefused")
        .await;
    sleep(LONG).await;
    let path =
        format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/{name}");
    let deleted = stage.api.delete(&path);
    deleted.await.expect("deleted");
    converge_after(rig).await;
}
