//! An operator with child types that the four kinds lack: a claim that outlives its resource, an
//! optional ConfigMap, and a StatefulSet. It uses the spec of Memcached; `memory` adds files.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::*;
use crate::kinds::BRAND;
use crate::kinds::memcached::v1::MemcachedSpec;
use quartet_versions::Kind;
use quartet_workload::ChildState;
use quartet_workload::operand::Operand;
use quartet_workload::plan::{ConfigPlan, Plan, StoragePlan};
use quartet_workload::{CONFIG_MAP, ChildType, OperandImage, Owned, STATEFUL_SET, status};

struct Keeper;

const CLAIM: ChildKind =
    &ChildType::of::<PersistentVolumeClaim>(|object| match object.pointer("/status/phase") {
        Some(phase) if phase == "Bound" => ChildState::Ready,
        _ => ChildState::NotReady("no volume is bound to it".into()),
    });

impl Operand for Keeper {
    const KIND: &'static Kind = Memcached::KIND;
    const IMAGE: Option<&'static OperandImage> = Memcached::IMAGE;
    const OWNS: &'static [Owned] = &[
        Owned::optional(CLAIM),
        Owned::optional(CONFIG_MAP),
        Owned::always(STATEFUL_SET),
    ];
    type Spec = MemcachedSpec;

    fn plan(&self, spec: MemcachedSpec, settings: &Settings) -> Result<Plan, Problem> {
        let memory = spec.memory;
        let plan = Memcached.plan(spec, settings)?;
        Ok(Plan {
            service: None,
            config: memory.map(|memory| ConfigPlan {
                folder: "/etc/keeper",
                files: [("keeper.conf".to_owned(), format!("memory {memory}\n"))].into(),
            }),
            storage: Some(StoragePlan {
                folder: "/data",
                size: "1Gi".to_owned(),
                class: None,
            }),
            others: vec![claim().retained(&BRAND)],
            ..plan
        })
    }
}

fn claim() -> Child {
    let metadata = json!({"name": "kept", "labels": {"mine": "yes"}});
    let claim = json!({"metadata": metadata, "spec": {"volumeName": "volume"}});
    let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    Child::of(CLAIM, claim)
}

fn keeper(memory: Option<i32>) -> Vec<Child> {
    let spec = json!({"replicas": 2, "memory": memory});
    children(&Keeper, &named(&Keeper, "safe", spec))
}

#[test]
fn the_children_of_all_operators_are_of_types_that_they_own() {
    for operator in OPERATORS {
        let spec = smallest_spec(operator.kind(), 1);
        for child in children(*operator, &resource(*operator, spec)) {
            assert!(operator.owns().iter().any(|owned| owned.kind == child.kind));
        }
    }
    let kinds = |memory| -> Vec<ChildKind> { keeper(memory).iter().map(|it| it.kind).collect() };
    assert_eq!(kinds(None), [CLAIM, STATEFUL_SET]);
    assert_eq!(kinds(Some(8)), [CLAIM, CONFIG_MAP, STATEFUL_SET]);
}

#[test]
fn a_type_is_what_kubernetes_calls_it() {
    for (child, group, names) in [
        (CLAIM, "", "v1 PersistentVolumeClaim persistentvolumeclaims"),
        (CONFIG_MAP, "", "v1 ConfigMap configmaps"),
        (DEPLOYMENT, "apps", "apps/v1 Deployment deployments"),
        (SERVICE, "", "v1 Service services"),
        (STATEFUL_SET, "apps", "apps/v1 StatefulSet statefulsets"),
    ] {
        let found = [child.api_version, child.kind, child.plural].join(" ");
        assert_eq!((child.group, &*found), (group, names));
        assert_eq!(child.has_pods, group == "apps", "{names}");
    }
}

#[test]
fn a_child_that_is_retained_names_its_resource_without_a_reference() {
    let children = keeper(None);
    let claim = body(&children, CLAIM);
    let annotations = &claim["metadata"]["annotations"];
    let uid = named(&Keeper, "safe", Value::Null).uid;
    let owner = format!("cache.example.com/Memcached/safe/{uid}");
    let found = &annotations["quartet-operator.example.com/retained-for"];
    assert_eq!(*found, owner.as_str());
    assert_eq!(claim["metadata"].get("ownerReferences"), None);
    assert_eq!(claim["metadata"]["namespace"], "default");
    let labels = &claim["metadata"]["labels"];
    assert_eq!(labels["mine"], "yes");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "quartet-operator");
    let set = body(&children, STATEFUL_SET);
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], uid.as_str());
}

#[test]
fn the_pods_restart_when_their_files_change_and_not_otherwise() {
    let template = |memory| body(&keeper(memory), STATEFUL_SET)["spec"]["template"].clone();
    let hash = |memory| template(memory)["metadata"]["annotations"].clone();
    assert_eq!(hash(Some(8)), hash(Some(8)));
    assert_ne!(hash(Some(8)), hash(Some(9)));
    assert_eq!(hash(None), Value::Null);
    let pods = &template(Some(8))["spec"];
    let mounts = json!([
        {"name": "config", "mountPath": "/etc/keeper", "readOnly": true},
        {"name": "data", "mountPath": "/data"},
    ]);
    assert_eq!(pods["containers"][0]["volumeMounts"], mounts);
    let volumes = json!([{"name": "config", "configMap": {"name": "safe-config"}}]);
    assert_eq!(pods["volumes"], volumes);
    let children = keeper(Some(8));
    let files = json!({"keeper.conf": "memory 8\n"});
    assert_eq!(body(&children, CONFIG_MAP)["data"], files);
}

#[test]
fn volumes_are_claimed_for_each_pod_and_kept() {
    let children = keeper(None);
    let spec = &body(&children, STATEFUL_SET)["spec"];
    let kept = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], kept);
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    });
    assert_eq!(spec["volumeClaimTemplates"], json!([claim]));
    // The user of the pods can write to the volume.
    let security = &spec["template"]["spec"]["securityContext"];
    assert_eq!(security["fsGroup"], security["runAsUser"]);
}

/// A label value contains the name of a pod's StatefulSet and a hash.
#[test]
fn the_names_of_a_stateful_set_and_a_config_map_fit() {
    let long = "a".repeat(253);
    let children = children(&Keeper, &named(&Keeper, &long, json!({"memory": 8})));
    let names: Vec<usize> = children.iter().map(|child| child.name.len()).collect();
    assert_eq!(names, ["kept".len(), 253, 52]);
}

/// A StatefulSet with 2 desired and ready pods, of which `updated` are up to date.
fn set(updated: i64) -> ObservedWorkload {
    let observed = (STATEFUL_SET.observe)(&json!({
        "metadata": {"generation": 3},
        "spec": {"replicas": 2},
        "status": {
            "observedGeneration": 3, "replicas": 2, "updatedReplicas": updated,
            "readyReplicas": 2, "availableReplicas": 2,
        },
    }));
    let ChildState::Workload(workload) = observed else {
        panic!("{observed:?}");
    };
    *workload
}

/// The status of a keeper with files, a bound volume and this StatefulSet.
fn told_of(workload: Option<ObservedWorkload>, phase: &str, missing: Option<ChildKind>) -> Status {
    let resource = named(&Keeper, "safe", json!({"replicas": 2, "memory": 8}));
    let desired = desired(&Keeper, &resource);
    let mut others: Vec<_> = desired.iter().flatten().collect();
    others.retain(|child| !child.kind.has_pods && Some(child.kind) != missing);
    let others = others.into_iter().map(|child| ObservedChild {
        kind: child.kind,
        name: child.name.clone(),
        not_ready: match (child.kind.observe)(&json!({"status": {"phase": phase}})) {
            ChildState::NotReady(why) => Some(why),
            ChildState::Ready | ChildState::Workload(_) => None,
        },
    });
    let observed = Observed {
        pods: pods(2, workload.as_ref().map_or(0, |it| it.ready)),
        workload,
        others: others.collect(),
        now: NOON.to_owned(),
        ..Observed::default()
    };
    let is_at_rest = status::is_at_rest(&desired, &observed);
    let status = Keeper.status(&resource, &desired, &observed);
    let is_ready = told(&status, "Ready").0 == "True";
    assert!(is_at_rest || !is_ready, "what is ready has come to rest");
    status
}

#[test]
fn ready_is_a_keeper_whose_set_is_rolled_out_and_whose_other_children_are_ready() {
    let ready = told_of(Some(set(2)), "Bound", None);
    assert_eq!(told(&ready, "Ready"), ("True", "RolloutComplete"));
    assert_eq!(told(&ready, "Available").0, "True");
    assert_eq!((ready.replicas, ready.ready_replicas), (Some(2), Some(2)));

    let rolling = told_of(Some(set(1)), "Bound", None);
    assert_eq!(told(&rolling, "Ready"), ("False", "RollingOut"));
    let message = &condition(&rolling, "Progressing").message;
    assert_eq!(message, "the StatefulSet is rolling out");

    let unbound = told_of(Some(set(2)), "Pending", None);
    assert_eq!(told(&unbound, "Ready"), ("False", "RollingOut"));
    let message = &condition(&unbound, "Ready").message;
    let expected = "PersistentVolumeClaim kept: no volume is bound to it";
    assert_eq!(message, expected);

    for missing in [CLAIM, CONFIG_MAP] {
        let status = told_of(Some(set(2)), "Bound", Some(missing));
        assert_eq!(told(&status, "Ready").0, "False", "{missing:?}");
    }
    let status = told_of(None, "Bound", None);
    assert_eq!(told(&status, "Ready").0, "False");
    assert_eq!(told(&status, "Available").0, "False");
}

/// It creates no pods.
#[test]
fn ready_is_a_resource_without_pods_whose_children_are_there() {
    let resource = named(&Keeper, "safe", json!({}));
    let desired: Desired = Ok(vec![claim()]);
    let there = ObservedChild {
        kind: CLAIM,
        name: "kept".to_owned(),
        not_ready: None,
    };
    for (others, is_ready) in [(vec![there], true), (Vec::new(), false)] {
        let observed = Observed {
            others,
            ..Observed::default()
        };
        let status = Keeper.status(&resource, &desired, &observed);
        let is_true = |type_| told(&status, type_).0 == "True";
        let found = ["Ready", "Available", "Progressing"].map(is_true);
        assert_eq!(found, [is_ready, is_ready, !is_ready]);
        assert_eq!(status::is_at_rest(&desired, &observed), is_ready);
    }
}
