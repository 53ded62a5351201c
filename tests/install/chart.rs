//! The Helm chart, rendered by a real Helm that is built from its module: with default values it
//! is the installer, with each other value it differs in what that value is for, and a value that
//! is wrong is refused in words.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::graph::Graph;
use crate::mounted;
use crate::rendered::{self, documents, overlay, repository};

const NAMESPACE: &str = "quartet-operator-system";

/// A certificate authority, in PEM. The API server takes no caBundle without one.
pub(crate) fn authority() -> &'static str {
    static AUTHORITY: OnceLock<String> = OnceLock::new();
    AUTHORITY.get_or_init(|| mounted::authority().pem())
}

/// The same as a caBundle.
pub(crate) fn bundle() -> Value {
    serde_json::to_value(ByteString(authority().into())).expect("base64")
}

/// Values of each way to use the chart, with the others at their defaults.
pub(crate) fn modes() -> [(&'static str, Value); 4] {
    [
        ("chart", json!({})),
        (
            "chart with cert-manager",
            json!({
                "certificates": {"mode": "cert-manager"},
                "monitoring": {"serviceMonitor": true, "rules": true},
                "networkPolicy": {"enabled": true},
            }),
        ),
        (
            "chart with a certificate that is given",
            json!({"certificates": {"mode": "provided", "provided": {"caBundle": authority()}}}),
        ),
        (
            "chart for two teams",
            json!({"watchNamespaces": ["team-a", "team-b"]}),
        ),
    ]
}

/// The Helm that `hack/helm` names, with folders of its own.
pub(crate) fn helm() -> Command {
    let build = Command::new(repository().join("hack/build-go.sh"))
        .arg(repository().join("hack/helm"))
        .stderr(Stdio::inherit())
        .output()
        .expect("hack/build-go.sh runs");
    assert!(build.status.success(), "Helm cannot be built, see above");
    let folder = String::from_utf8(build.stdout).expect("UTF-8");
    let mut helm = Command::new(PathBuf::from(folder.trim()).join("helm"));
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("helm");
    for kind in ["CACHE", "CONFIG", "DATA"] {
        helm.env(format!("HELM_{kind}_HOME"), home.join(kind));
    }
    helm
}

/// What Helm answers, or what it says of a failure.
pub(crate) fn answer(helm: &mut Command) -> Result<String, String> {
    let output = helm.output().expect("helm runs");
    let [said, failed] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    match output.status.success() {
        // Of a value that is merged away, Helm only warns. What its client library logs (klog: a
        // letter and the date) is no warning: a watch that is cancelled, for one, when --wait is
        // done before its answer was read.
        true => {
            let warnings: Vec<_> = failed.lines().filter(|line| !is_klog(line)).collect();
            assert!(warnings.is_empty(), "{warnings:?}: {said}");
            Ok(said)
        }
        false => Err(said + &failed),
    }
}

/// Whether this is a line like `E1122 21:22:50.867280   23449 request.go:1198] "…"`.
fn is_klog(line: &str) -> bool {
    let header = line.split_once("] ").map_or("", |(header, _)| header);
    let mut words = header.split_whitespace();
    let level_and_date = words.next().unwrap_or_default().as_bytes();
    matches!(level_and_date, [b'I' | b'W' | b'E' | b'F', date @ ..]
        if date.len() == 4 && date.iter().all(u8::is_ascii_digit))
        && words.count() == 3
}

/// `values` as a file for Helm.
pub(crate) fn value_file(values: &Value) -> PathBuf {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = rendered::scratch(&format!("values-{number}")).join("values.json");
    std::fs::write(&file, values.to_string()).expect("written");
    file
}

fn template(values: &Value) -> Result<Vec<Value>, String> {
    let mut helm = helm();
    helm.args([
        "template",
        "quartet",
        "dist/chart",
        "--namespace",
        NAMESPACE,
    ])
    .arg("--values")
    .arg(value_file(values))
    .current_dir(repository());
    answer(&mut helm).map(|text| rendered::parse(&text))
}

/// The objects for these values.
pub(crate) fn chart(values: &Value) -> Vec<Value> {
    template(values).expect("rendered")
}

fn is(object: &Value, kind: &str, name: &str) -> bool {
    object["kind"] == kind && object["metadata"]["name"] == name
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut objects = objects.iter();
    objects
        .find(|it| is(it, kind, name))
        .unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn deployment(objects: &[Value]) -> &Value {
    find(objects, "Deployment", "quartet-operator-controller-manager")
}

/// Removes a field, which must have this value.
#[track_caller]
fn take(object: &mut Value, pointer: &str, field: &str, expected: &Value) {
    let fields = object.pointer_mut(pointer).and_then(Value::as_object_mut);
    let found = fields.and_then(|fields| fields.remove(field));
    assert_eq!(
        found.as_ref(),
        Some(expected),
        "{pointer}/{field}: {object}"
    );
}

/// Removes one variable, which must have this value.
#[track_caller]
fn take_variable(container: &mut Value, name: &str, value: &str) {
    let variables = container["env"].as_array_mut().expect("variables");
    let at = variables.iter().position(|it| it["name"] == name);
    let found = variables.remove(at.unwrap_or_else(|| panic!("no {name}")));
    assert_eq!(found["value"], value, "{name}");
}

/// An object of the chart without what every object of a chart has and none of an overlay, and
/// without what is a default that the chart says and the overlay does not.
fn without_differences(mut object: Value) -> Value {
    // Who installed it, as which release, and which version of the chart.
    let version = env!("CARGO_PKG_VERSION");
    for (label, value) in [
        ("app.kubernetes.io/managed-by", "Helm".to_owned()),
        ("app.kubernetes.io/instance", "quartet".to_owned()),
        ("app.kubernetes.io/version", version.to_owned()),
        ("helm.sh/chart", format!("quartet-operator-{version}")),
    ] {
        take(&mut object, "/metadata/labels", label, &value.into());
    }
    match object["kind"].as_str().expect("a kind") {
        // An uninstalled release leaves them and all resources.
        "CustomResourceDefinition" => {
            let policy = "helm.sh/resource-policy";
            take(&mut object, "/metadata/annotations", policy, &"keep".into());
            if object["metadata"]["annotations"] == json!({}) {
                take(&mut object, "/metadata", "annotations", &json!({}));
            }
        }
        "Deployment" => {
            let labels = "/spec/template/metadata/labels";
            for (label, value) in [("managed-by", "Helm"), ("instance", "quartet")] {
                let label = format!("app.kubernetes.io/{label}");
                take(&mut object, labels, &label, &value.into());
            }
            let container = object.pointer_mut("/spec/template/spec/containers/0");
            let container = container.expect("a container");
            // The defaults of the API server and of the manager.
            take(container, "", "imagePullPolicy", &"IfNotPresent".into());
            take_variable(container, "LOG_FORMAT", "json");
            take_variable(container, "LOG_LEVEL", "info");
        }
        _ => {}
    }
    sorted(object)
}

/// An object of an overlay without the label of its tool, and without a label that is empty.
fn of_kustomize(mut object: Value) -> Value {
    let managed = "app.kubernetes.io/managed-by";
    take(
        &mut object,
        "/metadata/labels",
        managed,
        &"kustomize".into(),
    );
    if object["kind"] == "Deployment" {
        let labels = "/spec/template/metadata/labels";
        take(&mut object, labels, managed, &"kustomize".into());
    }
    sorted(object)
}

/// Variables, volumes and mounts by name: their order means nothing.
fn sorted(mut object: Value) -> Value {
    let pod = "/spec/template/spec";
    for list in ["containers/0/env", "containers/0/volumeMounts", "volumes"] {
        let list = object.pointer_mut(&format!("{pod}/{list}"));
        if let Some(list) = list.and_then(Value::as_array_mut) {
            list.sort_by_key(|it| it["name"].to_string());
        }
    }
    object
}

fn by_name(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
    objects
}

/// The chart and the overlays hold the same objects, but for the Namespace, which Helm makes
/// before it installs (`--create-namespace`).
#[track_caller]
fn assert_same(charted: Vec<Value>, overlaid: Vec<Value>) {
    let charted = charted.into_iter().map(without_differences);
    let charted = by_name(charted.collect());
    let overlaid = overlaid.into_iter().filter(|it| it["kind"] != "Namespace");
    // `config/crd` and `config/webhook` have no labels in some objects, and charts have in all.
    let overlaid = overlaid.map(|mut object| match object["metadata"]["labels"].is_null() {
        true => {
            object["metadata"]["labels"] = json!({"app.kubernetes.io/name": "quartet-operator"});
            sorted(object)
        }
        false => of_kustomize(object),
    });
    let overlaid = by_name(overlaid.collect());
    let names = |objects: &[Value]| -> Vec<String> {
        let names = objects.iter();
        names
            .map(|it| format!("{} {}", it["kind"], it["metadata"]["name"]))
            .collect()
    };
    assert_eq!(names(&charted), names(&overlaid));
    for (charted, overlaid) in charted.iter().zip(&overlaid) {
        assert_eq!(charted, overlaid);
    }
}

#[test]
fn helm_lint_has_nothing_to_say_of_any_mode() {
    for (mode, values) in modes() {
        let mut helm = helm();
        helm.args(["lint", "--strict", "--quiet", "dist/chart", "--values"])
            .arg(value_file(&values))
            .current_dir(repository());
        let said = answer(&mut helm).unwrap_or_else(|failed| panic!("{mode}: {failed}"));
        assert_eq!(said.trim(), "", "{mode}");
    }
}

#[test]
fn with_default_values_the_chart_is_the_installer() {
    let installer = documents(&repository().join("dist/install.yaml"));
    assert_same(chart(&json!({})), installer);
}

#[test]
fn with_cert_manager_and_all_that_goes_beside_the_chart_is_these_overlays() {
    let [_, (_, values), ..] = modes();
    let overlays = ["certmanager", "prometheus", "network-policy"].map(overlay);
    let mut charted = chart(&values);
    // With a certificate of cert-manager, Prometheus checks it.
    let monitor = charted.iter_mut().find(|it| it["kind"] == "ServiceMonitor");
    let tls = monitor
        .expect("a monitor")
        .pointer_mut("/spec/endpoints/0/tlsConfig");
    let service = "quartet-operator-controller-manager-metrics-service";
    let checked = json!({
        "ca": {"secret": {"name": "metrics-server-cert", "key": "ca.crt"}},
        "serverName": format!("{service}.{NAMESPACE}.svc"),
    });
    let tls = tls.expect("TLS");
    assert_eq!(*tls, checked);
    *tls = json!({"insecureSkipVerify": true});
    assert_same(charted, overlays.concat());
}

/// The Namespaces of a release and of its teams, and what somebody else makes.
pub(crate) fn surroundings() -> Vec<Value> {
    let namespaces = [NAMESPACE, "team-a", "team-b"]
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    namespaces.into()
}

#[test]
fn every_reference_resolves_in_every_mode() {
    for (mode, values) in modes() {
        let mut objects = [chart(&values), surroundings()].concat();
        if values["certificates"]["mode"] == "provided" {
            let metadata = json!({
                "name": "webhook-server-cert", "namespace": NAMESPACE,
                "annotations": {"kubernetes.io/service-account.name": "quartet-operator-controller-manager"},
            });
            objects.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}));
        }
        assert_eq!(Graph::of(objects).problems(), [""; 0], "{mode}");
    }
}

#[test]
fn in_another_namespace_nothing_names_the_usual_one() {
    for (mode, values) in modes() {
        let mut helm = helm();
        helm.args([
            "template",
            "other",
            "dist/chart",
            "--namespace",
            "elsewhere",
            "--values",
        ])
        .arg(value_file(&values))
        .current_dir(repository());
        let text = answer(&mut helm).expect("rendered");
        assert!(text.contains("namespace: elsewhere"), "{mode}");
        let usual: Vec<_> = text.lines().filter(|it| it.contains(NAMESPACE)).collect();
        assert_eq!(usual, [""; 0], "{mode}");
    }
}

#[test]
fn a_certificate_that_is_given_is_mounted_and_its_authority_is_registered() {
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
    assert_eq!(
        registered,
        4 + 8,
        "four CRDs, and webhooks of two versions of each"
    );
    let pod = &deployment(&objects)["spec"]["template"]["spec"];
    let volume =
        json!([{"name": "webhook-certs", "secret": {"secretName": "webhook-server-cert"}}]);
    assert_eq!(pod["volumes"], volume);
    let text = Value::from(objects.clone()).to_string();
    assert!(
        !text.contains("CERT_MODE") && !text.contains("self-managed"),
        "{text}"
    );
}

/// The rules that the manager has in the whole cluster.
fn cluster_rules(objects: &[Value]) -> Vec<Value> {
    let account = "quartet-operator-controller-manager";
    let bindings = objects
        .iter()
        .filter(|it| it["kind"] == "ClusterRoleBinding" && it["subjects"][0]["name"] == account);
    let rules = bindings.flat_map(|binding| {
        let name = binding["roleRef"]["name"].as_str().expect("a name");
        let role = find(objects, "ClusterRole", name);
        role["rules"].as_array().expect("rules").clone()
    });
    rules.collect()
}

/// What a manager of some namespaces may do in the cluster: what registers its webhooks, by name.
#[track_caller]
fn assert_registers_webhooks_only(objects: &[Value]) {
    let rules = cluster_rules(objects);
    assert!(!rules.is_empty(), "it finds some");
    for rule in rules {
        let resource = &rule["resources"][0];
        let registers = [
            "customresourcedefinitions",
            "validatingwebhookconfigurations",
        ];
        assert!(registers.iter().any(|it| resource == it), "{rule}");
        assert!(rule["resourceNames"].is_array(), "{rule}");
    }
}

#[test]
fn a_manager_of_some_namespaces_has_roles_there_and_may_only_register_its_webhooks_elsewhere() {
    let [.., (_, values)] = modes();
    let objects = chart(&values);
    assert_registers_webhooks_only(&objects);
    let everywhere = chart(&json!({}));
    let wanted = find(&everywhere, "ClusterRole", "quartet-operator-manager-role");
    for team in ["team-a", "team-b"] {
        let mut roles = objects.iter().filter(|it| {
            is(it, "Role", "quartet-operator-manager-role") && it["metadata"]["namespace"] == team
        });
        assert_eq!(
            roles.next().expect("a Role")["rules"],
            wanted["rules"],
            "{team}"
        );
    }
    let container = &deployment(&objects)["spec"]["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().expect("variables");
    let watched = json!({"name": "WATCH_NAMESPACE", "value": "team-a,team-b"});
    assert!(variables.contains(&watched), "{variables:?}");
    let arguments = container["args"].to_string();
    assert!(
        arguments.contains("--metrics-bind-address=0"),
        "{arguments}"
    );

    // Nothing but a bundle from elsewhere leaves it without any.
    let provided = json!({
        "watchNamespaces": ["team-a"],
        "certificates": {"mode": "provided", "provided": {"caBundle": authority()}},
    });
    assert_eq!(cluster_rules(&chart(&provided)), [Value::Null; 0]);

    // Metrics that are asked for nevertheless bring what they need, and no more.
    let mut measured = values.clone();
    measured["metrics"] = json!({"enabled": true});
    let rules = cluster_rules(&chart(&measured));
    let reviews = ["tokenreviews", "subjectaccessreviews"];
    let added = rules
        .iter()
        .filter(|rule| reviews.iter().any(|it| rule["resources"][0] == *it));
    assert_eq!(added.count(), reviews.len());
    assert_eq!(rules.len(), cluster_rules(&objects).len() + reviews.len());
}

#[test]
fn the_overlay_for_one_namespace_has_the_rights_of_the_chart_for_one() {
    let overlaid = overlay("namespaced");
    assert_registers_webhooks_only(&overlaid);
    let charted = chart(&json!({"watchNamespaces": [NAMESPACE]}));
    assert_eq!(cluster_rules(&overlaid), cluster_rules(&charted));
    let role =
        |objects: &[Value]| find(objects, "Role", "quartet-operator-manager-role")["rules"].clone();
    assert_eq!(role(&overlaid), role(&charted));
    // The team's namespace outlives the manager.
    assert!(overlaid.iter().all(|it| it["kind"] != "Namespace"));

    let folder = rendered::scratch("team");
    let kustomization = json!({
        "namespace": "team-a",
        "resources": [rendered::relative(&folder, "config/namespaced")],
    });
    std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).expect("written");
    let moved = rendered::render(&folder);
    assert!(!Value::from(moved.clone()).to_string().contains(NAMESPACE));
    assert_eq!(
        Graph::of([moved, surroundings()].concat()).problems(),
        [""; 0]
    );
}

#[test]
fn each_value_is_where_it_belongs() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let objects = chart(&json!({
        "replicas": 1,
        "image": {"repository": "registry.example.com/manager", "tag": "v9", "digest": digest},
        "imagePullSecrets": ["registry"],
        "operandImages": {"memcached": "registry.example.com/memcached:1"},
        "resources": {"limits": {"memory": "1Gi"}},
        "priorityClassName": "operators",
        "nodeSelector": {"pool": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "log": {"format": "text", "level": "debug"},
        "traces": {
            "endpoint": "https://collector.example.com:4318",
            "headersSecret": {"name": "otlp"},
            "authorities": {"configMap": "authorities"},
        },
        "env": [{"name": "MAX_REPLICAS", "value": "7"}],
    }));
    let spec = &deployment(&objects)["spec"];
    assert_eq!(spec["replicas"], 1);
    // It would hold up every drain.
    assert!(objects.iter().all(|it| it["kind"] != "PodDisruptionBudget"));
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "registry"}]));
    assert_eq!(pod["priorityClassName"], "operators");
    assert_eq!(pod["nodeSelector"], json!({"pool": "infra"}));
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "infra", "operator": "Exists"}])
    );
    let container = &pod["containers"][0];
    let image = format!("registry.example.com/manager@{digest}");
    assert_eq!(container["image"], image);
    let resources =
        json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}});
    assert_eq!(container["resources"], resources);
    let variables = container["env"].as_array().expect("variables");
    for (name, value) in [
        ("MEMCACHED_IMAGE", "registry.example.com/memcached:1"),
        ("LOG_FORMAT", "text"),
        ("LOG_LEVEL", "debug"),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "https://collector.example.com:4318",
        ),
        (
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "/etc/otlp-authorities/ca.crt",
        ),
        ("MAX_REPLICAS", "7"),
    ] {
        let variable = json!({"name": name, "value": value});
        assert!(variables.contains(&variable), "{name}: {variables:?}");
    }
    let headers = json!({
        "name": "OTEL_EXPORTER_OTLP_HEADERS",
        "valueFrom": {"secretKeyRef": {"name": "otlp", "key": "headers"}},
    });
    assert!(variables.contains(&headers), "{variables:?}");
    let volume = json!([{"name": "otlp-authorities", "configMap": {"name": "authorities"}}]);
    assert_eq!(pod["volumes"], volume);
    let mount = json!([{"name": "otlp-authorities", "mountPath": "/etc/otlp-authorities", "readOnly": true}]);
    assert_eq!(container["volumeMounts"], mount);

    let company = json!({"certificates": {"mode": "cert-manager", "certManager": {
        "issuerRef": {"kind": "ClusterIssuer", "name": "company"}}}});
    let objects = chart(&company);
    assert!(objects.iter().all(|it| it["kind"] != "Issuer"));
    let certificates = objects.iter().filter(|it| it["kind"] == "Certificate");
    let issuer = json!({"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "company"});
    let issuers: Vec<_> = certificates.map(|it| &it["spec"]["issuerRef"]).collect();
    assert_eq!(issuers, [&issuer, &issuer]);

    let gone = chart(&json!({"crds": {"keep": false}, "userRoles": {"create": false}}));
    let text = Value::from(gone).to_string();
    assert!(
        !text.contains("resource-policy") && !text.contains("aggregate-to-"),
        "{text}"
    );
}

/// What is wrong, and what Helm's refusal must name.
#[test]
fn a_wrong_value_is_refused_in_words_that_name_it() {
    for (values, words) in [
        (json!({"replica": 3}), ["replica", "additional properties"]),
        (json!({"replicas": 0}), ["/replicas", "minimum"]),
        (json!({"replicas": "3"}), ["/replicas", "want integer"]),
        (
            json!({"image": {"digest": "sha256:12"}}),
            ["/image/digest", "pattern"],
        ),
        (
            json!({"operandImages": {"memcache": "a"}}),
            ["/operandImages", "memcache"],
        ),
        (
            json!({"watchNamespaces": "team-a"}),
            ["/watchNamespaces", "want array"],
        ),
        (
            json!({"watchNamespaces": ["Team"]}),
            ["/watchNamespaces/0", "pattern"],
        ),
        (
            json!({"certificates": {"mode": "own"}}),
            [
                "/certificates/mode",
                "'self-managed', 'cert-manager', 'provided'",
            ],
        ),
        (
            json!({"certificates": {"mode": "provided"}}),
            ["certificates.provided.caBundle", "--set-file"],
        ),
        (
            json!({"certificates": {"provided": {"caBundle": "ca.crt"}}}),
            ["/certificates/provided/caBundle", "pattern"],
        ),
        (
            json!({"certificates": {"certManager": {"issuerRef": {"kind": "Issuer"}}}}),
            ["/certificates/certManager/issuerRef", "name"],
        ),
        (
            json!({"log": {"format": "xml"}}),
            ["/log/format", "'json', 'text'"],
        ),
        (
            json!({"metrics": {"enabled": "yes"}}),
            ["/metrics/enabled", "'auto', true, false"],
        ),
        (
            json!({"monitoring": {"rules": true}, "metrics": {"enabled": false}}),
            ["monitoring needs metrics", "metrics.enabled=true"],
        ),
        (
            json!({"traces": {"endpoint": "collector:4318"}}),
            ["/traces/endpoint", "pattern"],
        ),
        (
            json!({"tolerations": {"key": "a"}}),
            ["/tolerations", "want array"],
        ),
    ] {
        let refusal = template(&values).expect_err(&values.to_string());
        for word in words {
            assert!(refusal.contains(word), "{values}: {word}: {refusal}");
        }
    }
}

#[test]
fn a_line_of_helms_client_library_is_told_from_a_warning_of_helm() {
    let line =
        r#"E1122 21:22:50.867280   23449 request.go:1198] "Unexpected error" err="canceled""#;
    assert!(is_klog(line));
    for warning in [
        "coalesce.go:237: warning: skipped value for chart.affinity: Not a table.",
        "level=WARN msg=\"unable to find exact version\"",
        "WARNING: Kubernetes configuration file is group-readable.",
        "E1122] of nothing",
        "",
    ] {
        assert!(!is_klog(warning), "{warning}");
    }
}
