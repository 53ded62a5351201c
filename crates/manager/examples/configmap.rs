//! An operator of one kind with one version: for each Greeting, a ConfigMap of the same name.
//!
//! `cargo run --example configmap -- crd | kubectl apply -f -` installs the CRD, and `cargo run --example configmap
//! -- --enable-webhooks=false` runs the operator.
use std::process::ExitCode;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use quartet_manager::Application;
use quartet_versions::{Brand, Kind, Version, brand};
use quartet_workload::api::Status;
use quartet_workload::{CONFIG_MAP, Child, Desired, Legacy, Operator, Owned, Resource, Settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired state of the Greeting.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, status = "Status")]
struct GreetingSpec {
    /// Who is greeted.
    #[schemars(length(min = 1, max = 63))]
    name: String,
}

static BRAND: Brand = brand!("greeter", "greeter.example.com", "greetings");
static VERSION: Version = Version::new::<Greeting>("v1");
static KIND: Kind = Kind::new(&BRAND, "example.com", "Greeting", "greetings", VERSION);
static APPLICATION: Application = Application {
    version: "0.1.0",
    about: "Greetings as ConfigMaps",
    operators: &[&Greetings],
    brand: &BRAND,
    legacy: Legacy::NONE,
};
struct Greetings;

impl Operator for Greetings {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
    fn owns(&self) -> &'static [Owned] {
        const { &[Owned::always(CONFIG_MAP)] }
    }
    fn desired(&self, resource: &Resource, _: &Settings) -> Desired {
        let text = format!("Hello, {}!", resource.typed_spec::<GreetingSpec>()?.name);
        let map = ConfigMap {
            data: Some([("greeting".to_owned(), text)].into()),
            ..ConfigMap::default()
        };
        Ok(vec![Child::of(CONFIG_MAP, map).owned_by(&KIND, resource)])
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "crd") {
        println!("{}", serde_json::json!(KIND.crd(&KIND.hub)));
        return ExitCode::SUCCESS;
    }
    quartet_manager::main(&APPLICATION)
}
