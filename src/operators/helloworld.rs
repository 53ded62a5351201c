//! The plan of a HelloWorld: web servers with a welcome page and, if the spec has one, a Service.
//! Pure data for `workload`.

use super::nginx;
use super::operand::{Operand, OperandImage, Settings, ValidationError};
use super::plan::{Plan, WorkloadDefaults};
use crate::api::Kind;
use crate::api::helloworld::{KIND, v1::HelloWorldSpec};

/// The operator of `test.jiaozi.com` HelloWorld.
pub struct HelloWorld;

/// The image of nginx. Its welcome page is the greeting.
static IMAGE: OperandImage = OperandImage {
    variable: "HELLOWORLD_IMAGE",
    default: "docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine",
};

/// As nginx, which is its image.
const DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "greeter",
    // Users of the original version select pods by this label.
    legacy_pod_label: Some("hello_name"),
    ..nginx::DEFAULTS
};

impl Operand for HelloWorld {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = HelloWorldSpec;

    fn plan(&self, spec: HelloWorldSpec, settings: &Settings) -> Result<Plan, ValidationError> {
        Ok(Plan {
            container_port: spec.port.unwrap_or(DEFAULTS.port),
            service: spec.service.map(Into::into),
            ..Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)?
        })
    }
}
