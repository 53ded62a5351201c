//! The manager accepts the arguments and environment of its Deployment.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory as _;
use serde_json::{Value, json};

use quartet_packaging::Release;

use super::{generated, object, release};
use crate::APPLICATION;
use crate::kinds::OPERATORS;
use crate::names::{METRICS_PORT_NAME, TERMINATION_GRACE_SECONDS, WEBHOOK_PORT_NAME};
use quartet_manager::config::{CertMode, Config};

const HEALTH_PORT_NAME: &str = "health";

/// The Deployment of `install.yaml`.
fn deployment_of(release: &Release) -> Value {
    let files = generated(release, |it| it.installer());
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&files[Path::new("install.yaml")]).unwrap();
    let mut documents = documents.into_iter();
    documents.find(|it| it["kind"] == "Deployment").unwrap()
}

fn deployment() -> Value {
    deployment_of(&release())
}

fn container() -> Value {
    deployment()["spec"]["template"]["spec"]["containers"][0].clone()
}

/// The additions of `default`.
fn certificate_mode() -> (String, String) {
    let patch = object("default/manager_certificates_patch.yaml");
    let variable = &patch["spec"]["template"]["spec"]["containers"][0]["env"][0];
    let text = |field: &str| variable[field].as_str().unwrap().to_owned();
    (text("name"), text("value"))
}

/// The configuration of a manager with the arguments and environment of the Deployment.
fn configuration() -> Config {
    let container = container();
    let arguments = container["args"].as_array().unwrap().iter();
    let arguments = arguments.map(|it| it.as_str().unwrap().to_owned());
    let arguments = ["manager".to_owned()].into_iter().chain(arguments);
    Config::parse_arguments(&APPLICATION, arguments).unwrap()
}

/// The environment variables of the flags.
fn variables() -> BTreeSet<String> {
    let command = Config::command();
    let named = command.get_arguments().filter_map(|flag| flag.get_env());
    let named = named.map(|name| name.to_string_lossy().into_owned());
    named.collect()
}

fn port(name: &str) -> Value {
    let container = container();
    let mut ports = container["ports"].as_array().unwrap().iter();
    let port = ports.find(|port| port["name"] == name);
    port.unwrap_or_else(|| panic!("no port {name}"))["containerPort"].clone()
}

#[test]
fn the_manager_listens_on_the_ports_of_its_container() {
    let config = configuration();
    assert!(config.leader_elect, "there are two replicas");
    assert!(config.enable_webhooks);
    for (name, address) in [
        (WEBHOOK_PORT_NAME, format!(":{}", config.webhook_port)),
        (METRICS_PORT_NAME, config.metrics_bind_address),
        (HEALTH_PORT_NAME, config.health_probe_bind_address),
    ] {
        // Without a host, it is reached from outside the pod.
        assert_eq!(format!(":{}", port(name)), address, "{name}");
    }
    assert_eq!(container()["ports"].as_array().unwrap().len(), 3);
    for (probe, endpoint) in [("livenessProbe", "healthz"), ("readinessProbe", "readyz")] {
        let expected = json!({ "path": format!("/{endpoint}"), "port": HEALTH_PORT_NAME });
        assert_eq!(container()[probe]["httpGet"], expected);
    }
}

#[test]
fn the_manager_knows_every_variable_that_it_is_given() {
    let mut known = variables();
    let images = OPERATORS.iter().filter_map(|operator| operator.image());
    known.extend(images.map(|image| image.variable.to_owned()));
    known.insert("POD_NAMESPACE".to_owned());
    let container = container();
    let given = container["env"].as_array().unwrap().iter();
    let given = given.map(|variable| variable["name"].as_str().unwrap());
    let given: BTreeSet<_> = given.collect();
    let (name, mode) = certificate_mode();
    for variable in given.iter().chain([&name.as_str(), &"METRICS_CERT_PATH"]) {
        assert!(known.contains(*variable), "{variable}");
    }
    for operator in OPERATORS {
        if let Some(image) = operator.image() {
            assert!(given.contains(image.variable));
        }
    }
    assert_eq!(name, "CERT_MODE");
    let mode = format!("--cert-mode={mode}");
    Config::parse_arguments(&APPLICATION, ["manager", &mode]).unwrap();
}

#[test]
fn another_release_is_another_image_and_nothing_else() {
    let mut other = release();
    other.image = "registry.example.com/manager:other".to_owned();
    let (ours, theirs) = (deployment(), deployment_of(&other));
    let changed = ours.to_string().replace(&release().image, &other.image);
    assert_eq!(changed, theirs.to_string());
    assert_ne!(ours, theirs);
}

/// Pod Security Standards, profile *restricted*.
#[test]
fn the_pod_is_restricted_and_a_rollout_never_leaves_less_than_all_replicas() {
    let spec = &deployment()["spec"];
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let found = &pod["securityContext"]["seccompProfile"]["type"];
    assert_eq!(*found, "RuntimeDefault");
    let context = &container()["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let grace = &pod["terminationGracePeriodSeconds"];
    assert_eq!(*grace, TERMINATION_GRACE_SECONDS);
    assert_eq!(container()["readinessProbe"]["periodSeconds"], 2);
    assert_eq!(container()["resources"]["limits"]["cpu"], Value::Null);
}

#[test]
fn the_webhook_certificate_is_mounted_where_the_manager_looks_for_it() {
    let config = configuration();
    let expected = CertMode::Directory;
    assert_eq!(config.cert_mode, expected, "somebody else makes it");
    let files = config.webhook_files();
    let patch = object("certmanager/manager_certificates_patch.yaml");
    let mounts = &patch["spec"]["template"]["spec"]["containers"][0]["volumeMounts"];
    let mut mounts = mounts.as_array().unwrap().iter();
    let mount = mounts.find(|mount| mount["name"] == "webhook-certs");
    let folder = Path::new(mount.unwrap()["mountPath"].as_str().unwrap());
    assert_eq!(files.certificate, folder.join("tls.crt"));
    assert_eq!(files.key, folder.join("tls.key"));
}
