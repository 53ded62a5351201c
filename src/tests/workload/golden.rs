//! The complete children of each kind, as YAML in `testdata/`, so that reviews show the effect of
//! a change on the cluster. Renew with `UPDATE_GOLDEN=1 cargo test tests::workload::golden`, and
//! review the difference: for a released version, each changed line of a pod template is a
//! rollout of every instance.

use std::path::Path;

use super::*;

/// File name, operator and hub spec: the samples of every kind, and objects with every field.
fn cases() -> Vec<(String, &'static dyn Operator, Value)> {
    let samples = OPERATORS.iter().flat_map(|operator| {
        let kind = operator.kind();
        [&kind.spoke, &kind.hub].map(|version| {
            let sample = sample(kind, version).expect("a sample");
            let spec = conversion::hub_spec(kind, version, &sample["spec"], None);
            let name = format!("{}-{}", kind.controller_name(), version.name);
            (name, *operator, spec)
        })
    });
    samples.chain(full()).collect()
}

/// A spec with every field of each kind: what is shared, and what is its own.
fn full() -> [(String, &'static dyn Operator, Value); 4] {
    let of = |operator: &'static dyn Operator, own| {
        let mut spec = json!({
            "imagePullPolicy": "IfNotPresent",
            "imagePullSecrets": [{ "name": "registry" }],
            "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": 1, "memory": "256Mi" } },
            "scheduling": {
                "nodeSelector": { "kubernetes.io/os": "linux" },
                "tolerations": [{ "key": "dedicated", "operator": "Exists", "value": "", "tolerationSeconds": 0 }],
                "topologySpreadConstraints": [{
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                }],
                "priorityClassName": "high",
            },
        });
        merge(&mut spec, own);
        let name = format!("{}-full", operator.kind().controller_name());
        (name, operator, spec)
    };
    let memcached = json!({
        "replicas": 5, "image": "registry.example.com:5000/memcached@sha256:00",
        "memory": 1024, "maxConnections": 4096, "threads": 8, "port": 11212,
        "service": { "enabled": true }, "podSecurity": "Baseline",
    });
    let nginx = json!({
        "replicas": 2, "image": "example.com/site:7", "port": 9090,
        "service": { "type": "NodePort", "port": 8080, "nodePort": 30080 },
    });
    let hello_world = json!({
        "replicas": 0, "podSecurity": "Baseline", "service": { "type": "LoadBalancer" },
    });
    let elastic_web = json!({
        "image": "example.com/site:7", "podSecurity": "Restricted", "containerPort": 8080,
        "capacity": { "perPodQPS": 100, "targetQPS": 250 },
        "service": { "port": 80, "nodePort": 31000 },
    });
    [
        of(&Memcached, memcached),
        of(&Nginx, nginx),
        of(&HelloWorld, hello_world),
        of(&ElasticWeb, elastic_web),
    ]
}

#[test]
fn the_children_of_each_kind_are_those_on_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/workload/testdata");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for (name, operator, spec) in cases() {
        let children = children(operator, &resource(operator, spec));
        let bodies: Vec<&Value> = children.iter().map(|child| &child.body).collect();
        let yaml = serde_saphyr::to_string_multiple(&bodies).expect("writes YAML");
        let path = folder.join(&name).with_extension("yaml");
        if update {
            std::fs::write(&path, yaml).expect("writes the file");
        } else {
            let on_file = std::fs::read_to_string(&path).expect("reads the file");
            assert_eq!(yaml, on_file, "{name} is stale: see how to renew it above");
        }
    }
}
