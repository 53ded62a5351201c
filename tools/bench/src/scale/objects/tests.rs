use super::*;

fn deployment(replicas: i64) -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "ns", "uid": "5ca1e000-0000-4000-8000-00000000002a", "generation": 3},
        "spec": {"replicas": replicas, "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i", "readinessProbe": {"periodSeconds": 5}}]},
        }},
    })
}

#[test]
fn defaults_replace_nothing_and_a_second_time_change_nothing() {
    let mut object = deployment(2);
    default_deployment(&mut object);
    assert_eq!(object["spec"]["replicas"], 2);
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["readinessProbe"]["periodSeconds"], 5);
    assert_eq!(container["readinessProbe"]["timeoutSeconds"], 1);
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    let once = object.clone();
    default_deployment(&mut object);
    assert_eq!(object, once);
}

#[test]
fn a_service_keeps_the_address_that_it_got() {
    let mut service =
        json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}});
    default_service(&mut service, 258);
    assert_eq!(service["spec"]["clusterIP"], "10.0.1.2");
    assert_eq!(service["spec"]["externalTrafficPolicy"], "Cluster");
    let once = service.clone();
    default_service(&mut service, 259);
    assert_eq!(service, once);
    let mut inner = json!({"spec": {}});
    default_service(&mut inner, 1);
    assert_eq!(inner["spec"].get("externalTrafficPolicy"), None);
}

#[test]
fn a_status_says_how_far_a_rollout_is() {
    let mut object = deployment(2);
    deployment_status(&mut object, Rollout::Begun, 0);
    let status = &object["status"];
    assert_eq!(
        (
            status["observedGeneration"].as_i64(),
            status.get("replicas")
        ),
        (Some(3), None)
    );
    assert_eq!(status["conditions"][0]["status"], "False");
    deployment_status(&mut object, Rollout::Waiting, 0);
    assert_eq!(object["status"]["unavailableReplicas"], 2);
    assert_eq!(object["status"].get("readyReplicas"), None);
    deployment_status(&mut object, Rollout::Done, 2);
    let status = &object["status"];
    assert_eq!(status["availableReplicas"], 2);
    assert_eq!(status.get("unavailableReplicas"), None);
    assert_eq!(status["conditions"][0]["status"], "True");
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        entries.len(),
        1,
        "the last write replaces the entry of the one before"
    );
    assert_eq!(entries[0]["subresource"], "status");
    assert!(entries[0]["fieldsV1"]["f:status"]["f:availableReplicas"].is_object());
}

#[test]
fn without_pods_a_deployment_is_available_at_once() {
    let mut object = deployment(0);
    deployment_status(&mut object, Rollout::Done, 0);
    let status = &object["status"];
    assert_eq!(status["conditions"][0]["status"], "True");
    assert_eq!(status.get("replicas"), None);
}

#[test]
fn a_pod_is_found_by_its_hash_and_goes_through_its_phases() {
    let object = deployment(1);
    let mut pod = pod(&object);
    let hash = pod["metadata"]["labels"]["pod-template-hash"]
        .as_str()
        .unwrap();
    let set = pod["metadata"]["ownerReferences"][0]["name"]
        .as_str()
        .unwrap();
    assert_eq!(set, format!("a-{hash}"));
    assert!(pod_name(&object, 0).starts_with(set));
    assert_eq!(pod["metadata"]["labels"]["app"], "a");
    assert_eq!(pod["status"]["phase"], "Pending");
    pod_status(&mut pod, Phase::Scheduled);
    assert_eq!(pod["spec"]["nodeName"], "node-0");
    pod_status(&mut pod, Phase::Creating);
    assert_eq!(pod["status"]["conditions"][2]["status"], "False");
    pod_status(&mut pod, Phase::Running);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["conditions"][2]["type"], "Ready");
    assert_eq!(pod["status"]["conditions"][2]["status"], "True");
    let entries = pod["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        (&entries[0]["manager"], &entries[1]["manager"]),
        (&CONTROLLER.into(), &"kubelet".into())
    );
}
