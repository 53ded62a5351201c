//! What the children hold: images, ports, security, and nothing that is left to others.

use super::*;
use quartet_workload::OperandImage;

#[test]
fn fault_09_and_15_image_ports_and_resources_reach_the_children() {
    let mut spec = elastic_web(json!(1), 1);
    spec["image"] = json!("example.com/site:8");
    spec["containerPort"] = json!(3000);
    let resources = json!({ "requests": { "cpu": "1", "memory": "1Gi" } });
    spec["resources"] = resources.clone();
    spec["service"]["nodePort"] = json!(30004);
    let container = contained(&ElasticWeb, spec.clone());
    assert_eq!(container["image"], "example.com/site:8");
    assert_eq!(container["ports"][0]["containerPort"], 3000);
    assert_eq!(container["resources"], resources);
    let service = service(&ElasticWeb, &resource(&ElasticWeb, spec));
    assert_eq!(service["spec"]["ports"][0]["nodePort"], 30004);
}

#[test]
fn fault_14_what_the_api_server_allocates_for_a_service_is_left_to_it() {
    let spec = json!({ "service": { "type": "LoadBalancer" } });
    let service = service(&Nginx, &resource(&Nginx, spec));
    let allocated = "clusterIP clusterIPs healthCheckNodePort ipFamilies";
    for field in allocated.split(' ') {
        assert_eq!(service["spec"].get(field), None, "{field}");
    }
    assert_eq!(service["spec"]["ports"][0].get("nodePort"), None);
}

#[test]
fn fault_20_and_26_default_images_are_tagged_and_pods_run_without_root() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        let deployment = deployed(operator, json!({}));
        let pod = &deployment["spec"]["template"]["spec"]["securityContext"];
        assert_eq!(pod["runAsNonRoot"], true);
        assert!(pod["runAsUser"].as_i64().is_some_and(|user| user > 0));
        let container = container(&deployment);
        let image = container["image"].as_str().expect("a text");
        let (_, tag) = image.rsplit_once(':').expect("a tag");
        assert!(!tag.contains('/') && tag != "latest", "{image}");
        let port = container["ports"][0]["containerPort"].as_i64();
        assert!(port.is_some_and(|port| port >= 1024));
        let context = &container["securityContext"];
        assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
        assert_eq!(context["allowPrivilegeEscalation"], false);
    }
}

#[test]
fn fault_29_only_fields_that_we_have_an_opinion_on_are_owned() {
    let deployment = deployed(&Nginx, json!({}));
    let spec = &deployment["spec"];
    assert_eq!(keys(spec), ["replicas", "selector", "template"]);
    let of_pods = "automountServiceAccountToken containers securityContext";
    assert_eq!(keys(&spec["template"]["spec"]).join(" "), of_pods);
    let expected = ["labels", "name", "namespace", "ownerReferences"];
    assert_eq!(keys(&deployment["metadata"]), expected);
}

fn keys(object: &Value) -> Vec<&str> {
    let members = object.as_object().expect("an object");
    members.keys().map(String::as_str).collect()
}

#[test]
fn fault_32_no_image_reference_is_taken_apart() {
    for image in ["memcached", "host:5000/m", "m@sha256:00", ":", "a:b:c"] {
        let container = contained(&Memcached, json!({ "image": image }));
        assert_eq!(container["image"], image);
    }
}

#[test]
fn fault_46_pods_have_probes_requests_and_a_security_context() {
    for operator in OPERATORS {
        let children = children(*operator, &resource(*operator, one_pod(*operator)));
        let deployment = workload(&children);
        let container = container(deployment);
        assert!(container["readinessProbe"].is_object());
        let has_liveness = container.get("livenessProbe").is_some();
        let is_ours = |image: &OperandImage| container["image"] == image.default;
        assert_eq!(has_liveness, operator.image().is_some_and(is_ours));
        for resource in ["cpu", "memory"] {
            assert!(container["resources"]["requests"][resource].is_string());
        }
        let pod = &deployment["spec"]["template"]["spec"];
        let found = &pod["securityContext"]["seccompProfile"]["type"];
        assert_eq!(*found, "RuntimeDefault");
        assert_eq!(pod["automountServiceAccountToken"], false);
    }
}
