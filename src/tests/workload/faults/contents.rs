//! What the children hold: images, ports, security, and nothing that is left to others.

use super::*;
use quartet_workload::OperandImage;

#[test]
fn fault_06_ports_speak_tcp() {
    let resource = resource(&ElasticWeb, elastic_web(json!(1), 1));
    assert_eq!(
        container(&deployment(&ElasticWeb, &resource))["ports"],
        json!([{ "name": "http", "containerPort": 80, "protocol": "TCP" }])
    );
    assert_eq!(
        service(&ElasticWeb, &resource)["spec"]["ports"],
        json!([{ "name": "http", "protocol": "TCP", "port": 8080, "targetPort": "http", "nodePort": 30003 }])
    );
}

#[test]
fn fault_08_the_service_is_asked_for_at_every_pass() {
    // The function has no observed state as input, so it cannot depend on whether the Deployment
    // exists.
    let resource = resource(&ElasticWeb, elastic_web(json!(1), 1));
    let first = children(&ElasticWeb, &resource);
    assert_eq!(first.len(), 2);
    assert_eq!(first, children(&ElasticWeb, &resource));
}

#[test]
fn fault_09_image_and_ports_reach_the_children() {
    let mut spec = elastic_web(json!(1), 1);
    spec["image"] = json!("example.com/site:8");
    spec["containerPort"] = json!(3000);
    spec["service"]["nodePort"] = json!(30004);
    let resource = resource(&ElasticWeb, spec);
    let deployment = deployment(&ElasticWeb, &resource);
    assert_eq!(container(&deployment)["image"], "example.com/site:8");
    assert_eq!(container(&deployment)["ports"][0]["containerPort"], 3000);
    let found = &service(&ElasticWeb, &resource)["spec"]["ports"][0]["nodePort"];
    assert_eq!(*found, 30004);
}

#[test]
fn fault_14_what_the_api_server_allocates_for_a_service_is_left_to_it() {
    let spec = json!({ "service": { "type": "LoadBalancer" } });
    let service = service(&Nginx, &resource(&Nginx, spec));
    for field in [
        "clusterIP",
        "clusterIPs",
        "healthCheckNodePort",
        "ipFamilies",
    ] {
        assert_eq!(service["spec"].get(field), None, "{field}");
    }
    assert_eq!(service["spec"]["ports"][0].get("nodePort"), None);
}

#[test]
fn fault_15_container_port_and_resources_are_the_users_to_set() {
    let mut spec = elastic_web(json!(1), 1);
    spec["containerPort"] = json!(3000);
    spec["resources"] = json!({ "requests": { "cpu": "1", "memory": "1Gi" } });
    let deployment = deployment(&ElasticWeb, &resource(&ElasticWeb, spec));
    assert_eq!(container(&deployment)["ports"][0]["containerPort"], 3000);
    let expected = json!({ "requests": { "cpu": "1", "memory": "1Gi" } });
    assert_eq!(container(&deployment)["resources"], expected);
}

#[test]
fn fault_20_default_images_are_tagged() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        let deployment = deployment(operator, &resource(operator, json!({})));
        let image = container(&deployment)["image"].as_str().expect("a text");
        let (_, tag) = image.rsplit_once(':').expect("a tag");
        assert!(!tag.contains('/') && tag != "latest", "{image}");
    }
}

#[test]
fn fault_26_pods_run_without_root_by_default() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        let deployment = deployment(operator, &resource(operator, json!({})));
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert!(
            pod["securityContext"]["runAsUser"]
                .as_i64()
                .is_some_and(|user| user > 0)
        );
        let port = container(&deployment)["ports"][0]["containerPort"].as_i64();
        assert!(port.is_some_and(|port| port >= 1024));
        let context = &container(&deployment)["securityContext"];
        assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
        assert_eq!(context["allowPrivilegeEscalation"], false);
    }
}

#[test]
fn fault_29_only_fields_that_we_have_an_opinion_on_are_owned() {
    let deployment = deployment(&Nginx, &resource(&Nginx, json!({})));
    let fields = |value: &Value| {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let expected = ["replicas", "selector", "template"];
    assert_eq!(fields(&deployment["spec"]), expected);
    assert_eq!(
        fields(&deployment["spec"]["template"]["spec"]),
        [
            "automountServiceAccountToken",
            "containers",
            "securityContext"
        ]
    );
    let expected = ["labels", "name", "namespace", "ownerReferences"];
    assert_eq!(fields(&deployment["metadata"]), expected);
}

#[test]
fn fault_32_no_image_reference_is_taken_apart() {
    for image in ["memcached", "host:5000/m", "m@sha256:00", ":", "a:b:c"] {
        let deployment = deployment(&Memcached, &resource(&Memcached, json!({ "image": image })));
        assert_eq!(container(&deployment)["image"], image);
    }
}

#[test]
fn fault_38_image_and_port_of_memcached_reach_the_deployment() {
    let spec = json!({ "image": "example.com/memcached:2", "port": 11212 });
    let deployment = deployment(&Memcached, &resource(&Memcached, spec));
    assert_eq!(container(&deployment)["image"], "example.com/memcached:2");
    assert_eq!(container(&deployment)["ports"][0]["containerPort"], 11212);
    assert_eq!(container(&deployment)["args"][3], "11212");
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
