//! The controller of kube with three of these crates beside it: `quartet-lease` elects a leader, whose fence limits
//! each write; `quartet-webhook` rejects more than three replicas; `quartet-certificates` reads its certificate.
//!
//! `cargo run --example own_reconcile -- crd` prints the CRD. `NAMESPACE` is that of the Lease, `WEBHOOK_CERT_PATH`
//! the folder of the certificate, and `WEBHOOK_PORT` the port.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::runtime::{Controller, controller::Action, watcher};
use kube::{Api, Client, CustomResource, Resource as _, ResourceExt as _};
use prometheus_client::registry::Registry;
use quartet_certificates::{Files, directory};
use quartet_lease::{Election, Leadership, LeaseLock, TIMING, identity};
use quartet_versions::{Brand, Kind, Version, brand};
use quartet_webhook::{Handlers, Metrics, Stopping, TlsVersion, serve};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Desired state of the Pinger.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Pinger", namespaced)]
struct PingerSpec {
    /// Number of pods.
    replicas: i32,
}

static BRAND: Brand = brand!("pinger", "pinger.example.com", "pingers");
static VERSION: Version = Version::new::<Pinger>("v1").counted_by(&["replicas"]);
static KIND: Kind = Kind::new(&BRAND, "example.com", "Pinger", "pingers", VERSION);
const MAX_REPLICAS: u32 = 3;

/// Applies the Deployment, while this process leads.
async fn reconcile(
    pinger: Arc<Pinger>,
    context: Arc<(Client, Leadership)>,
) -> Result<Action, kube::Error> {
    let (client, leadership) = &*context;
    let Some(left) = leadership.time_left() else {
        return Ok(Action::await_change());
    };
    let (name, namespace) = (pinger.name_any(), pinger.namespace().unwrap_or_default());
    let labels = json!({"app.kubernetes.io/name": "pinger", "app.kubernetes.io/instance": name});
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "ownerReferences": [pinger.controller_owner_ref(&())]},
        "spec": {
            "replicas": pinger.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    let api: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let (manager, patch) = (PatchParams::apply(BRAND.name), Patch::Apply(deployment));
    let written = tokio::time::timeout(left, api.patch(&name, &manager, &patch)).await;
    written.map_err(|elapsed| kube::Error::Service(elapsed.into()))??;
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().any(|argument| argument == "crd") {
        println!("{}", json!(KIND.crd(&KIND.hub)));
        return Ok(());
    }
    let (client, mut registry) = (Client::try_default().await?, Registry::default());

    // The webhook serves on every replica.
    let folder = PathBuf::from(std::env::var("WEBHOOK_CERT_PATH")?);
    let files = Files {
        certificate: folder.join("tls.crt"),
        key: folder.join("tls.key"),
    };
    let (certificates, renewal) = directory(files, Default::default());
    tokio::spawn(renewal);
    let address = format!("127.0.0.1:{}", std::env::var("WEBHOOK_PORT")?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    let handlers = Handlers::new(
        &[&KIND],
        MAX_REPLICAS,
        &Metrics::register(&mut registry, "example"),
    );
    let stopping = Stopping {
        grace: Duration::ZERO,
        drain: Duration::from_secs(1),
    };
    let (minimum, never) = (TlsVersion::Tls12, std::future::pending());
    tokio::spawn(serve(
        listener,
        certificates,
        minimum,
        handlers,
        stopping,
        never,
    ));

    // The controller runs while this process leads.
    let lock = LeaseLock {
        client: client.clone(),
        namespace: std::env::var("NAMESPACE")?,
        name: BRAND.domain.to_owned(),
        field_manager: BRAND.name.to_owned(),
        identity: identity(),
        timing: TIMING,
        flags: String::new(),
        flags_annotation: BRAND.lease_flags,
    };
    let election = Election::new(lock, &mut registry);
    let leadership = election.leadership();
    tokio::spawn(async move {
        leadership.clone().elected().await;
        let any = watcher::Config::default;
        let controller = Controller::new(Api::<Pinger>::all(client.clone()), any());
        let controller = controller.owns(Api::<Deployment>::all(client.clone()), any());
        let after_error = |_, _: &_, _| Action::requeue(Duration::from_secs(5));
        let reconciles = controller.run(reconcile, after_error, Arc::new((client, leadership)));
        let log = async |result| println!("{result:?}");
        reconciles.for_each(log).await;
    });
    // Releases the Lease at the end.
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    Ok(election.run(stop).await?)
}
