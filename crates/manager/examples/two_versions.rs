//! An operator of a kind with two versions, which the webhook converts by a map of fields: `size` of the original
//! version is `replicas` of the storage version, which also has an image.
//!
//! `cargo run --example two_versions -- crd` prints the CRD. Its conversion webhook is the Service of a deployed
//! manager.

use std::process::ExitCode;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ServiceReference;
use kube::CustomResource;
use quartet_manager::Application;
use quartet_packaging::crd::both_versions;
use quartet_versions::{Brand, FieldMapping, Kind, Version, brand};
use quartet_webhook::paths;
use quartet_workload::Legacy;
use quartet_workload::api::Status;
use quartet_workload::api::workload::ReplicatedWorkload;
use quartet_workload::operand::{Operand, OperandImage, Problem, Settings};
use quartet_workload::plan::{Plan, WorkloadDefaults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired state of the Cache.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1alpha1", kind = "Cache", root = "OldCache")]
#[kube(namespaced, status = "Status")]
struct OldSpec {
    /// Number of pods.
    #[schemars(range(min = 0))]
    size: i32,
}

/// Desired state of the Cache.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Cache", namespaced, status = "Status")]
struct CacheSpec {
    /// Number of pods, image and pod settings.
    #[serde(flatten)]
    workload: ReplicatedWorkload,
}

static BRAND: Brand = brand!("cache-operator", "cache-operator.example.com", "caches");
static HUB: Version = Version::new::<Cache>("v1").counted_by(&["replicas"]);
static KIND: Kind = Kind {
    spoke: Version::new::<OldCache>("v1alpha1").counted_by(&["size"]),
    field_mappings: &[FieldMapping::new(&["size"], &["replicas"])],
    ..Kind::new(&BRAND, "example.com", "Cache", "caches", HUB)
};
static IMAGE: OperandImage = OperandImage {
    variable: "CACHE_IMAGE",
    default: "docker.io/library/redis:8-alpine",
};
static DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    port: 6379,
    ..WorkloadDefaults::RESTRICTED
};
static APPLICATION: Application = Application {
    version: "0.1.0",
    about: "Caches of Redis",
    operators: &[&Caches],
    brand: &BRAND,
    legacy: Legacy::NONE,
};

struct Caches;

impl Operand for Caches {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = CacheSpec;

    fn plan(&self, spec: CacheSpec, settings: &Settings) -> Result<Plan, Problem> {
        Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "crd") {
        let service = ServiceReference {
            name: APPLICATION.webhook_service(),
            namespace: APPLICATION.namespace(),
            path: Some(paths::CONVERT.to_owned()),
            port: None,
        };
        println!(
            "{}",
            serde_json::json!(both_versions(&KIND, &KIND.hub, service))
        );
        return ExitCode::SUCCESS;
    }
    quartet_manager::main(&APPLICATION)
}
