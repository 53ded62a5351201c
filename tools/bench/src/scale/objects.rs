//! What others than the manager add to objects: the API server's defaults, the status of the
//! Deployment controller, pods and their status, and the `managedFields` of all of them. Shapes and
//! sizes are those that a real control plane leaves (tests/versions/previous). Pure.

use serde_json::{Map, Value, json};

use super::table::now;

/// As kube-apiserver's audit log has it.
const CONTROLLER: &str = "kube-controller-manager";

/// Fills in what is missing.
fn default(object: &mut Value, defaults: &Value) {
    let Some(defaults) = defaults.as_object() else {
        return;
    };
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    for (name, value) in defaults {
        match object.get_mut(name) {
            Some(member) if member.is_object() => default(member, value),
            Some(_) => {}
            None => object[name] = value.clone(),
        }
    }
}

/// The defaults of apps/v1 (kubernetes `pkg/apis/apps/v1/defaults.go`, `pkg/apis/core/v1/defaults.go`).
pub(super) fn default_deployment(deployment: &mut Value) {
    default(
        &mut deployment["spec"],
        &json!({
            "progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": {"spec": {
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
                "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
            }},
        }),
    );
    let containers = deployment.pointer_mut("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        default(
            container,
            &json!({
                "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }),
        );
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            if let Some(probe) = container.get_mut(probe) {
                let numbers = json!({
                    "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
                });
                default(probe, &numbers);
            }
        }
    }
}

/// The defaults of a Service, with the address that it is given.
pub(super) fn default_service(service: &mut Value, number: u64) {
    let [.., b, c, d] = number.to_be_bytes();
    let address = format!("10.{b}.{c}.{d}");
    let is_open = service["spec"]["type"] != "ClusterIP" && !service["spec"]["type"].is_null();
    default(
        service,
        &json!({
            "spec": {
                "clusterIP": address, "clusterIPs": [address], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        }),
    );
    if is_open {
        default(
            &mut service["spec"],
            &json!({"externalTrafficPolicy": "Cluster"}),
        );
    }
}

/// Notes that `manager` has written these parts of the object.
pub(super) fn note_manager(object: &mut Value, api_version: &str, by: &Manager, parts: &Value) {
    let entry = json!({
        "manager": by.name, "operation": "Update", "apiVersion": api_version, "time": now(),
        "fieldsType": "FieldsV1", "fieldsV1": modelapi::fields_of(parts),
    });
    let metadata = &mut object["metadata"];
    if !metadata["managedFields"].is_array() {
        metadata["managedFields"] = json!([]);
    }
    let Some(entries) = metadata["managedFields"].as_array_mut() else {
        return;
    };
    let is_same = |entry: &Value| {
        let subresource = entry.get("subresource").and_then(Value::as_str);
        entry["manager"] == by.name && subresource.unwrap_or_default() == by.subresource
    };
    entries.retain(|entry| !is_same(entry));
    entries.push(entry);
    if let Some(entry) = entries.last_mut().filter(|_| !by.subresource.is_empty()) {
        entry["subresource"] = by.subresource.into();
    }
}

/// Who writes, and which subresource, empty for the object.
pub(super) struct Manager<'a> {
    pub(super) name: &'a str,
    pub(super) subresource: &'static str,
}

/// How far the Deployment controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rollout {
    /// It has made a ReplicaSet.
    Begun,
    /// It has made the pods.
    Waiting,
    /// The pods are ready.
    Done,
}

/// The status that the Deployment controller writes, when `ready` of the pods are.
pub(super) fn deployment_status(deployment: &mut Value, rollout: Rollout, ready: i64) {
    let wanted = replicas(deployment);
    let (available, why, what) = match ready >= wanted {
        true => ("True", "MinimumReplicasAvailable", "has"),
        false => ("False", "MinimumReplicasUnavailable", "does not have"),
    };
    let set = replica_set(deployment);
    let (progress, message) = match rollout {
        Rollout::Begun => (
            "NewReplicaSetCreated",
            format!("Created new replica set \"{set}\""),
        ),
        Rollout::Waiting => (
            "ReplicaSetUpdated",
            format!("ReplicaSet \"{set}\" is progressing."),
        ),
        Rollout::Done => (
            "NewReplicaSetAvailable",
            format!("ReplicaSet \"{set}\" has successfully progressed."),
        ),
    };
    let time = now();
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastUpdateTime": time, "lastTransitionTime": time,
        })
    };
    let mut status = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "conditions": [
            condition("Available", available, why, &format!("Deployment {what} minimum availability.")),
            condition("Progressing", "True", progress, &message),
        ],
    });
    if rollout != Rollout::Begun && wanted > 0 {
        status["replicas"] = wanted.into();
        status["updatedReplicas"] = wanted.into();
        status["terminatingReplicas"] = 0.into();
        // Zeros are left out.
        if ready > 0 {
            status["readyReplicas"] = ready.min(wanted).into();
            status["availableReplicas"] = ready.min(wanted).into();
        }
        if ready < wanted {
            status["unavailableReplicas"] = (wanted - ready).into();
        }
    }
    let revision = json!({"deployment.kubernetes.io/revision": "1"});
    default(&mut deployment["metadata"]["annotations"], &revision);
    let parts = json!({"metadata": {"annotations": revision}, "status": status});
    deployment["status"] = status;
    let by = Manager {
        name: CONTROLLER,
        subresource: "status",
    };
    note_manager(deployment, "apps/v1", &by, &parts);
}

/// The pods that it asks for.
pub(super) fn replicas(deployment: &Value) -> i64 {
    deployment["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// What ten letters of a name are made of here: the owner's uid.
fn hash(deployment: &Value) -> &str {
    let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default();
    uid.get(uid.len().saturating_sub(10)..).unwrap_or_default()
}

fn replica_set(deployment: &Value) -> String {
    let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
    format!("{name}-{}", hash(deployment))
}

/// The name of the pod `number` of a Deployment.
pub(super) fn pod_name(deployment: &Value, number: i64) -> String {
    format!("{}-{number:05}", replica_set(deployment))
}

/// How far the kubelet is with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody has looked at it.
    Created,
    /// It has a node.
    Scheduled,
    /// Its container is being made.
    Creating,
    Running,
}

/// A new pod of a Deployment.
pub(super) fn pod(deployment: &Value) -> Value {
    let template = &deployment["spec"]["template"];
    let (set, hash) = (replica_set(deployment), hash(deployment));
    let mut labels = template["metadata"]["labels"].clone();
    labels["pod-template-hash"] = hash.into();
    let mut spec = template["spec"].clone();
    let tolerated = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    default(
        &mut spec,
        &json!({
            "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
            "serviceAccount": "default", "serviceAccountName": "default",
            "tolerations": [
                tolerated("node.kubernetes.io/not-ready"), tolerated("node.kubernetes.io/unreachable"),
            ],
        }),
    );
    let uid = &deployment["metadata"]["uid"];
    let mut pod = json!({
        "metadata": {
            "generateName": format!("{set}-"), "labels": labels,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    });
    let parts = pod.clone();
    let by = Manager {
        name: CONTROLLER,
        subresource: "",
    };
    note_manager(&mut pod, "v1", &by, &parts);
    pod_status(&mut pod, Phase::Created);
    pod
}

/// The status that a pod has in a phase; from `Scheduled` on with a node.
pub(super) fn pod_status(pod: &mut Value, phase: Phase) {
    let container = &pod["spec"]["containers"][0];
    let (name, image) = (container["name"].clone(), container["image"].clone());
    let time = now();
    if phase == Phase::Created {
        pod["status"] = json!({"phase": "Pending", "qosClass": "Burstable"});
        return;
    }
    pod["spec"]["nodeName"] = "node-0".into();
    let condition = |type_: &str, is_true: bool| {
        let status = if is_true { "True" } else { "False" };
        let mut condition = json!({
            "type": type_, "status": status, "lastProbeTime": null, "lastTransitionTime": time,
        });
        if !is_true {
            condition["reason"] = "ContainersNotReady".into();
            let what = format!("containers with unready status: [{name}]");
            condition["message"] = what.into();
        }
        condition
    };
    if phase == Phase::Scheduled {
        pod["status"]["conditions"] = json!([condition("PodScheduled", true)]);
        return;
    }
    let runs = phase == Phase::Running;
    let conditions = [
        condition("PodReadyToStartContainers", runs),
        condition("Initialized", true),
        condition("Ready", runs),
        condition("ContainersReady", runs),
        condition("PodScheduled", true),
    ];
    let state = match runs {
        true => json!({"running": {"startedAt": time}}),
        false => json!({"waiting": {"reason": "ContainerCreating"}}),
    };
    let mut status = json!({
        "phase": if runs { "Running" } else { "Pending" }, "qosClass": "Burstable",
        "conditions": conditions, "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}],
        "startTime": time,
        "containerStatuses": [{
            "name": name, "image": image, "imageID": "", "ready": runs, "started": runs,
            "restartCount": 0, "lastState": {}, "state": state,
        }],
    });
    if runs {
        status["podIP"] = "10.244.0.7".into();
        status["podIPs"] = json!([{"ip": "10.244.0.7"}]);
    }
    let parts = json!({"status": status});
    pod["status"] = status;
    let by = Manager {
        name: "kubelet",
        subresource: "status",
    };
    note_manager(pod, "v1", &by, &parts);
}

#[cfg(test)]
mod tests;
