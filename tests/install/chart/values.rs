//! Each value appears where it belongs, and an invalid one is rejected with a message.

use quartet_operator::packaging::kinds;
use serde_json::{Value, json};

use super::{bundle, chart, deployment, find, modes, template};

#[test]
fn a_provided_certificate_is_mounted_and_its_authority_is_registered() {
    let [.., (_, values), _] = modes();
    let objects = chart(&values);
    let mut registered = 0;
    for object in &objects {
        let conversion = &object["spec"]["conversion"]["webhook"];
        let webhooks = object["webhooks"].as_array().into_iter().flatten();
        let clients = webhooks.chain([conversion]).map(|it| &it["clientConfig"]);
        for client in clients.filter(|it| it.is_object()) {
            assert_eq!(client["caBundle"], bundle(), "{object}");
            registered += 1;
        }
    }
    // The CRD of each kind, and the webhooks of its two versions.
    assert_eq!(registered, 3 * kinds().len());
    let pod = &deployment(&objects)["spec"]["template"]["spec"];
    let volume =
        json!([{"name": "webhook-certs", "secret": {"secretName": "webhook-server-cert"}}]);
    assert_eq!(pod["volumes"], volume);
    let text = Value::from(objects.clone()).to_string();
    for absent in ["CERT_MODE", "self-managed"] {
        assert!(!text.contains(absent), "{text}");
    }
}

#[test]
fn each_value_appears_where_it_belongs() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let objects = chart(&json!({
        "replicas": 1,
        "image": {"repository": "registry.example.com/manager", "tag": "v9", "digest": digest},
        // In YAML, an unquoted 123 or 1e3 is a number, which the API server rejects.
        "imagePullSecrets": ["123"],
        "operandImages": {"memcached": "registry.example.com/memcached:1"},
        "resources": {"limits": {"memory": "1Gi"}},
        "priorityClassName": "1e3",
        "nodeSelector": {"pool": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "log": {"format": "text", "level": "debug"},
        "traces": {
            "endpoint": "https://collector.example.com:4318",
            "headersSecret": {"name": "123"},
            "authorities": {"configMap": "authorities"},
        },
        "env": [{"name": "MAX_REPLICAS", "value": "7"}],
    }));
    let spec = &deployment(&objects)["spec"];
    assert_eq!(spec["replicas"], 1);
    // With `minAvailable: 1`, one replica would block every drain.
    let budget = objects
        .iter()
        .find(|it| it["kind"] == "PodDisruptionBudget");
    let budget = &budget.expect("a budget")["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    assert_eq!(budget.get("minAvailable"), None);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "123"}]));
    assert_eq!(pod["priorityClassName"], "1e3");
    assert_eq!(pod["nodeSelector"], json!({"pool": "infra"}));
    let expected = json!([{"key": "infra", "operator": "Exists"}]);
    assert_eq!(pod["tolerations"], expected);
    let container = &pod["containers"][0];
    let image = format!("registry.example.com/manager@{digest}");
    assert_eq!(container["image"], image);
    let resources =
        json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}});
    assert_eq!(container["resources"], resources);
    let variables = container["env"].as_array().expect("variables");
    let endpoint = "https://collector.example.com:4318";
    let certificate = "/etc/otlp-authorities/ca.crt";
    for (name, value) in [
        ("MEMCACHED_IMAGE", "registry.example.com/memcached:1"),
        ("LOG_FORMAT", "text"),
        ("LOG_LEVEL", "debug"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate),
        ("MAX_REPLICAS", "7"),
    ] {
        let variable = json!({"name": name, "value": value});
        assert!(variables.contains(&variable), "{name}: {variables:?}");
    }
    let headers = json!({
        "name": "OTEL_EXPORTER_OTLP_HEADERS",
        "valueFrom": {"secretKeyRef": {"name": "123", "key": "headers"}},
    });
    assert!(variables.contains(&headers), "{variables:?}");
    let volume = json!([{"name": "otlp-authorities", "configMap": {"name": "authorities"}}]);
    assert_eq!(pod["volumes"], volume);
    let mount = json!([{"name": "otlp-authorities", "mountPath": "/etc/otlp-authorities", "readOnly": true}]);
    assert_eq!(container["volumeMounts"], mount);

    let company = json!({"certificates": {"mode": "cert-manager", "certManager": {
        "issuerRef": {"kind": "ClusterIssuer", "name": "123"}}}});
    let objects = chart(&company);
    assert!(objects.iter().all(|it| it["kind"] != "Issuer"));
    let certificates = objects.iter().filter(|it| it["kind"] == "Certificate");
    let issuer = json!({"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "123"});
    let issuers: Vec<_> = certificates.map(|it| &it["spec"]["issuerRef"]).collect();
    assert_eq!(issuers, [&issuer, &issuer]);

    let gone = chart(&json!({"crds": {"keep": false}, "userRoles": {"create": false}}));
    let text = Value::from(gone).to_string();
    for absent in ["resource-policy", "aggregate-to-"] {
        assert!(!text.contains(absent), "{text}");
    }
}

#[test]
fn given_namespaces_may_read_the_metrics_and_none_does_not_mean_all() {
    let default = json!({"metrics": "enabled"});
    let given = json!({"team": "monitoring"});
    let (none, unset) = (json!({}), Value::Null);
    for (from, labels) in [(&given, &given), (&none, &default), (&unset, &default)] {
        let objects = chart(&json!({"networkPolicy": {"enabled": true, "metricsFrom": from}}));
        let name = "quartet-operator-allow-metrics-traffic";
        let ingress = &find(&objects, "NetworkPolicy", name)["spec"]["ingress"][0];
        let selector = json!([{"namespaceSelector": {"matchLabels": labels}}]);
        assert_eq!(ingress["from"], selector, "{from}");
    }
}

#[test]
fn every_form_of_a_value_that_kubernetes_takes_is_accepted() {
    let reference = json!({"name": "a", "key": "b", "optional": true});
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
    for values in [
        json!({"operandImages": {"memcached": "memcached"}}),
        json!({"operandImages": {"memcached": "Registry:5000/a/b_c:1.6-alpine"}}),
        json!({"operandImages": {"memcached": format!("[::1]:5000/a:1@sha256:{}", "0".repeat(64))}}),
        json!({"resources": {"limits": {"cpu": 1, "memory": "1e3", "example.com/gpu": "1"}}}),
        json!({"resources": {"requests": {"cpu": 0.5, "memory": ".5Gi", "hugepages-2Mi": "2Mi"}}}),
        json!({"resources": {"claims": [{"name": "a", "request": "b"}]}}),
        json!({"nodeSelector": {"node-role.kubernetes.io/infra": "", "a": "b_c.d"}}),
        json!({"tolerations": [{"operator": "Exists"}]}),
        json!({"tolerations": [{
            "key": "a/b", "operator": "Equal", "value": "c", "effect": "NoExecute", "tolerationSeconds": 9,
        }]}),
        json!({"env": [{"name": "a.b-c"}, {"name": "A", "valueFrom": {"secretKeyRef": reference}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"fieldRef": field}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
    ] {
        chart(&values);
    }
}

/// Values, and two parts of Helm's error.
const INVALID: &str = r#"
replica: 3 | replica | additional properties
replicas: 0 | /replicas | minimum
replicas: "3" | /replicas | want integer
image: {digest: "sha256:12"} | /image/digest | pattern
image: {repository: "registry.example.com:5000/manager:v1"} | /image/repository | pattern
resources: {limit: {memory: 1Gi}} | /resources | 'limit'
resources: {limits: 1Gi} | /resources/limits | want object
traces: null | missing property | 'traces'
traces: {authorities: null} | /traces | 'authorities'
traces: {endpoint: "collector:4318"} | /traces/endpoint | pattern
operandImages: {memcache: a} | /operandImages | memcache
watchNamespaces: team-a | /watchNamespaces | want array
watchNamespaces: [Team] | /watchNamespaces/0 | pattern
certificates: {mode: own} | /certificates/mode | 'self-managed', 'cert-manager', 'provided'
certificates: {mode: provided} | certificates.provided.caBundle | --set-file
certificates: {provided: {caBundle: ca.crt}} | /certificates/provided/caBundle | pattern
certificates: {mode: provided, provided: {caBundle: "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n"}} | certificates.provided.caBundle | private key
certificates: {certManager: {issuerRef: {kind: Issuer}}} | /certificates/certManager/issuerRef | name
log: {format: xml} | /log/format | 'json', 'text'
metrics: {enabled: "yes"} | /metrics/enabled | 'auto', true, false
{monitoring: {rules: true}, metrics: {enabled: false}} | monitoring needs metrics | metrics.enabled=true
tolerations: {key: a} | /tolerations | want array
tolerations: [{key: a, operator: foo}] | /tolerations/0/operator | 'Exists'
tolerations: [{kei: a}] | /tolerations/0 | 'kei'
resources: {limits: {memory: abc}} | /resources/limits/memory | pattern
resources: {limits: {foo: {bar: 1}}} | /resources/limits | foo
env: [{name: A, value: 1}] | /env/0/value | want string
env: [{name: "", value: "1"}] | /env/0/name | pattern
env: [{name: A, value: "1", valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}] | /env/0 | not
nodeSelector: {a/b/c: x} | invalid propertyName | a/b/c
operandImages: {memcached: "UPPER:x:y"} | /operandImages/memcached | pattern
"#;

#[test]
fn an_invalid_value_is_rejected_with_a_message_that_names_it() {
    let invalid: Vec<&str> = INVALID.trim().lines().collect();
    assert!(invalid.len() > 20);
    for line in invalid {
        let mut parts = line.split(" | ");
        let values = parts.next().expect("values");
        let values: Value = serde_saphyr::from_str(values).expect(line);
        let refusal = template(&values).expect_err(line);
        for word in parts {
            assert!(refusal.contains(word), "{values}: {word}: {refusal}");
        }
    }
}
