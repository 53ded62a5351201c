//! Other programs beside the operator: backups that strip children, owners that come back, health checks by
//! the rules of kstatus, and conditions of other controllers.

use serde_json::{Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, Kind, MEMCACHED, ORIGINAL_KINDS, POD, SERVICE, TestEnv};
use testkit::{condition, is_ready};

/// The annotation in which the spoke version keeps the fields that only the hub version has.
const CONVERSION_DATA: &str = "quartet-operator.example.com/conversion-data";

/// A resource with these fields of the hub version.
fn with_hub(kind: Kind, name: &str, spec: Value, hub: &Value) -> Value {
    let mut object = kind.object(name, spec);
    let data = json!({"v1": hub, "v2": hub}).to_string();
    object["metadata"]["annotations"] = json!({CONVERSION_DATA: data});
    object
}

fn memcached(name: &str, hub: &Value) -> Value {
    with_hub(MEMCACHED, name, json!({"size": 1}), hub)
}

/// A value for each optional field that the pods show; a kind ignores those that it does not have.
fn everything() -> Value {
    json!({
        "memory": 128, "maxConnections": 10, "threads": 2, "port": 11212,
        "service": {"enabled": true, "port": 81},
        "image": "docker.io/library/memcached:1.6.39-alpine", "imagePullPolicy": "Always",
        "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
        "resources": {"requests": {"cpu": "1m"}, "limits": {"memory": "256Mi"}},
        "podSecurity": "Baseline",
        "scheduling": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        },
    })
}

/// The part of a child that the API server does not assign.
fn content(child: &Value, name: &str) -> Value {
    let mut spec = child["spec"].clone();
    for assigned in ["clusterIP", "clusterIPs"] {
        spec.as_object_mut().expect("a spec").remove(assigned);
    }
    if let Some(port) = spec.pointer_mut("/ports/0") {
        port.as_object_mut().expect("a port").remove("nodePort");
    }
    let text = json!([spec, child["metadata"]["labels"]]).to_string();
    serde_json::from_str(&text.replace(name, "NAME")).expect("JSON")
}

/// Clears the managedFields of an object, as the Kubernetes documentation says.
async fn clear_managed_fields(env: &TestEnv, kind: Kind, name: &str) {
    let cleared = env.patch(kind, name, json!({"metadata": {"managedFields": [{}]}}));
    cleared.await.expect("cleared");
}

#[tokio::test]
async fn a_child_whose_managed_fields_were_cleared_keeps_no_field_that_the_spec_loses() {
    let mut env = TestEnv::start("cleared").await;
    let least = json!({"service": {"enabled": true}});
    for (kind, mut spec) in changes::one_of_each(30089) {
        let fresh = format!("fresh-{}", kind.plural);
        let object = with_hub(kind, &fresh, spec.clone(), &least);
        env.apply(&object).await.expect("applied");
        env.until_ready(kind, &fresh).await;
        for (case, port) in [("while-it-runs", 30090), ("while-it-is-stopped", 30091)] {
            let name = &*format!("{case}-{}", kind.plural);
            if kind.kind == "ElasticWeb" {
                spec["port"] = json!(port);
            }
            let full = with_hub(kind, name, spec.clone(), &everything());
            env.apply(&full).await.expect("applied");
            // Its pods fit no node here.
            for kind in [DEPLOYMENT, SERVICE] {
                env.until(kind, name, "applied", |_| true).await;
            }
            let annotated =
                json!({"spec": {"template": {"metadata": {"annotations": {"by": "hand"}}}}});
            let annotated = env.patch(DEPLOYMENT, name, annotated).await;
            annotated.expect("annotated");
            if case == "while-it-is-stopped" {
                env.stop_manager();
            }
            for kind in [DEPLOYMENT, SERVICE] {
                clear_managed_fields(&env, kind, name).await;
            }
            let lesser = with_hub(kind, name, spec.clone(), &least);
            env.apply(&lesser).await.expect("applied");
            if case == "while-it-is-stopped" {
                env.start_manager(&[]);
            }
            for kind in [DEPLOYMENT, SERVICE] {
                let wanted = content(&env.get(kind, &fresh).await.expect("it"), &fresh);
                env.until(kind, name, "as a new one", |child| {
                    let mut found = child.clone();
                    if let Some(template) = found.pointer_mut("/spec/template/metadata") {
                        let annotations = template["annotations"].take();
                        assert_eq!(annotations, json!({"by": "hand"}), "it is not ours");
                        let metadata = template.as_object_mut().expect("metadata");
                        metadata.remove("annotations");
                    }
                    content(&found, name) == wanted
                })
                .await;
            }
            env.until_ready(kind, name).await;
        }
    }
}

/// What happens to the children of a deleted resource before another of its name is created.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    Scaled,
    SetImage,
    /// Restored from a backup, without owner and managedFields.
    Restored,
    OtherSelector,
    OtherContainer,
    NoLabel,
}

/// Replaces a child by a copy as a backup has it, changed by `change`.
async fn restore(env: &TestEnv, kind: Kind, name: &str, change: impl Fn(&mut Value)) {
    let mut child = env.get(kind, name).await.expect("the orphan");
    let metadata = child["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|field, _| ["name", "labels", "annotations"].contains(&field.as_str()));
    child.as_object_mut().expect("an object").remove("status");
    change(&mut child);
    env.delete(kind, name).await;
    env.until_gone(kind, name).await;
    let created = env.api.create(&env.path(kind, ""), &child).await;
    created.expect("restored");
    clear_managed_fields(env, kind, name).await;
}

async fn meanwhile(env: &TestEnv, name: &str, what: Meanwhile) {
    let patch = |kind, patch| async move {
        env.patch(kind, name, patch).await.expect("patched");
    };
    let container = |field: &'static str, value: &'static str| {
        move |child: &mut Value| {
            child["spec"]["template"]["spec"]["containers"][0][field] = json!(value);
        }
    };
    match what {
        Meanwhile::Nothing => {}
        Meanwhile::Scaled => patch(DEPLOYMENT, json!({"spec": {"replicas": 2}})).await,
        Meanwhile::SetImage => {
            let mut child = env.get(DEPLOYMENT, name).await.expect("it");
            container("image", "other:1")(&mut child);
            let spec = child["spec"]["template"]["spec"].take();
            patch(DEPLOYMENT, json!({"spec": {"template": {"spec": spec}}})).await;
        }
        Meanwhile::Restored => {
            restore(env, DEPLOYMENT, name, |_| ()).await;
            restore(env, SERVICE, name, |_| ()).await;
        }
        Meanwhile::OtherSelector => {
            restore(env, DEPLOYMENT, name, |child| {
                child["spec"]["selector"]["matchLabels"]["app"] = json!("b");
                child["spec"]["template"]["metadata"]["labels"]["app"] = json!("b");
            })
            .await;
        }
        Meanwhile::OtherContainer => {
            restore(env, DEPLOYMENT, name, container("name", "theirs")).await;
        }
        Meanwhile::NoLabel => {
            let none = json!({"metadata": {"labels": {"app.kubernetes.io/component": null}}});
            patch(DEPLOYMENT, none.clone()).await;
            // One write of anybody else, so that the fields are not ours alone.
            patch(DEPLOYMENT, json!({"spec": {"replicas": 2}})).await;
        }
    }
}

#[tokio::test]
async fn orphans_that_are_ours_are_adopted_and_no_others() {
    use Meanwhile::{NoLabel, Nothing, OtherContainer, OtherSelector, Restored, Scaled, SetImage};
    let env = TestEnv::start("orphans").await;
    let hub = json!({"service": {"enabled": true}, "threads": 2});
    let adopted = [Nothing, Scaled, SetImage, Restored];
    let others = [OtherSelector, OtherContainer, NoLabel];
    let cases = || adopted.into_iter().chain(others);
    let name_of = |case: Meanwhile| format!("{case:?}").to_lowercase();
    for case in cases() {
        let created = env.apply(&memcached(&name_of(case), &hub)).await;
        created.expect("applied");
    }
    for case in cases() {
        env.until_ready(MEMCACHED, &name_of(case)).await;
        let orphan = json!({"propagationPolicy": "Orphan"});
        env.delete_with(MEMCACHED, &name_of(case), orphan).await;
    }
    for case in cases() {
        let name = name_of(case);
        env.until_gone(MEMCACHED, &name).await;
        let is_orphan = |child: &Value| child["metadata"]["ownerReferences"].is_null();
        env.until(DEPLOYMENT, &name, "an orphan", is_orphan).await;
        meanwhile(&env, &name, case).await;
        let before = env.get(DEPLOYMENT, &name).await.expect("the orphan");
        let is_rolled_out = |child: &Value| {
            child["status"]["observedGeneration"] == before["metadata"]["generation"]
                && child["status"]["readyReplicas"] == child["spec"]["replicas"]
                && child["status"]["updatedReplicas"] == child["spec"]["replicas"]
        };
        let rolled_out = env.until(DEPLOYMENT, &name, "rolled out", is_rolled_out);
        let before = rolled_out.await;
        let pods = pods(&env, &name).await;
        let created = env.apply(&memcached(&name, &hub)).await;
        let uid = created.expect("applied")["metadata"]["uid"].clone();
        if others.contains(&case) {
            let blocked = env.until_degraded(MEMCACHED, &name, "NameConflict").await;
            let degraded = condition(&blocked, "Degraded").expect("it")["message"].to_string();
            assert!(degraded.contains("to hand it over"), "{degraded}");
            let after = env.get(DEPLOYMENT, &name).await.expect("it");
            assert_eq!(after["spec"], before["spec"], "{case:?}");
            assert_eq!(uid_of(&after), uid_of(&before), "{case:?}");
            continue;
        }
        env.until_ready(MEMCACHED, &name).await;
        for kind in [DEPLOYMENT, SERVICE] {
            let child = env.get(kind, &name).await.expect("it");
            let owner = &child["metadata"]["ownerReferences"][0];
            assert_eq!(owner["uid"], uid, "{case:?}");
        }
        let after = env.get(DEPLOYMENT, &name).await.expect("it");
        assert_eq!(uid_of(&after), uid_of(&before), "{case:?}");
        assert_eq!(after["spec"]["replicas"], 1);
        if case != SetImage {
            let kept = self::pods(&env, &name).await;
            let are_kept = kept.iter().all(|pod| pods.contains(pod));
            assert!(are_kept, "{case:?}: {kept:?} of {pods:?}");
        }
    }
}

fn uid_of(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

/// The names of the pods of a resource that are not being deleted.
pub(crate) async fn pods(env: &TestEnv, name: &str) -> Vec<Value> {
    let mut pods = env.list(POD).await;
    pods.retain(|pod| {
        pod["metadata"]["labels"]["app.kubernetes.io/instance"] == name
            && pod["metadata"]["deletionTimestamp"].is_null()
    });
    let names = pods
        .into_iter()
        .map(|mut pod| pod["metadata"]["name"].take());
    names.collect()
}

/// Whether kstatus calls an object `Current`, by the rules for kinds that it does not know: its status is of
/// its generation, and no condition speaks against it.
fn is_current(object: &Value) -> bool {
    let observed = &object["status"]["observedGeneration"];
    let is = |wanted: &str, status: &str| {
        condition(object, wanted).is_some_and(|condition| condition["status"] == status)
    };
    let is_observed = observed.is_null() || *observed == object["metadata"]["generation"];
    let has_ready = condition(object, "Ready").is_some();
    is_observed
        && !is("Reconciling", "True")
        && !is("Stalled", "True")
        && (!has_ready || is("Ready", "True"))
}

#[tokio::test]
async fn no_resource_is_current_before_it_is_ready() {
    let mut env = TestEnv::without_manager("kstatus").await;
    let mut seen = Vec::new();
    for (kind, mut spec) in changes::one_of_each(30095) {
        for name in ["new", "original"] {
            let is_new = name == "new";
            let name = format!("{}-{name}", kind.plural);
            let created = env.apply(&kind.object(&name, spec.clone())).await;
            let mut created = created.expect("applied");
            if !is_new {
                if kind.kind == "ElasticWeb" {
                    // The second one needs another node port.
                    spec["port"] = json!(30096);
                    let changed = env.patch(kind, &name, json!({"spec": spec})).await;
                    changed.expect("changed");
                }
                let status = json!({"status": {"nodes": ["a"]}});
                created = env.patch_status(kind, &name, status).await;
            }
            assert!(!is_current(&created), "{created:#}");
            let read = env.get(kind, &name).await.expect("it");
            assert!(!is_current(&read), "{read:#}");
            seen.push((kind, name));
        }
    }
    env.start_manager(&[]);
    for (kind, name) in seen {
        env.until(kind, &name, "Ready", |object| {
            assert!(!is_current(object) || is_ready(object), "{object:#}");
            is_ready(object)
        })
        .await;
    }
}

#[tokio::test]
async fn conditions_of_other_controllers_stay() {
    let env = TestEnv::start("conditions").await;
    let theirs = |of: &str| {
        json!({
            "type": format!("example.com/{of}"), "status": "True", "reason": "Done", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        })
    };
    let has =
        |object: &Value, it| condition(object, &format!("example.com/{it}")) == Some(&theirs(it));
    let has_theirs = |object: &Value| has(object, "BackedUp") && has(object, "Scanned");
    let sizes = ["size", "count", "totalQPS", "size"];
    for ((kind, spec), size) in changes::one_of_each(30092).into_iter().zip(sizes) {
        let name = kind.plural;
        changes::apply_ready(&env, kind, name, spec).await;
        // By server-side apply, and by a replacement of the list, in which theirs is the first one.
        let mut applied = kind.object(name, Value::Null);
        applied.as_object_mut().expect("an object").remove("spec");
        applied["status"] = json!({"conditions": [theirs("BackedUp")]});
        let path = format!("{}/status?fieldManager=backup", env.path(kind, name));
        env.api.apply(&path, &applied).await.expect("applied");
        let read = env.get(kind, name).await.expect("it");
        let all = read["status"]["conditions"].as_array().expect("a list");
        let all = [&[theirs("Scanned")], &all[..]].concat();
        let status = json!({"status": {"conditions": all}});
        env.patch_status(kind, name, status).await;
        for count in [2, 1] {
            changes::patch(&env, kind, name, json!({"spec": {size: count}})).await;
            let ready = env.until_ready(kind, name).await;
            assert!(has_theirs(&ready), "{:#}", ready["status"]);
        }
    }
    let writes = || {
        let mut requests = env.requests();
        let of = |kind: &Kind| format!("{}/status", kind.plural);
        requests.retain(|it| ORIGINAL_KINDS.iter().any(|kind| it.resource == of(kind)));
        requests.len()
    };
    let before = writes();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(writes(), before, "nothing differs");
    for kind in ORIGINAL_KINDS {
        assert!(has_theirs(&env.get(kind, kind.plural).await.expect("it")));
    }
}
