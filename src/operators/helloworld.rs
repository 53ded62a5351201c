//! The plan of a HelloWorld: web servers with a welcome page and, if the spec has one, a Service.
//! Pure data for `workload`.

use super::nginx::{DEFAULT_PORT, MEMORY_REQUEST};
use super::operand::{Operand, replicas_within_limit};
use super::plan::{Image, Plan, Program};
use super::{OperandImage, Refused, Settings};
use crate::api::Kind;
use crate::api::helloworld::{KIND, v1::HelloWorldSpec};
use crate::api::workload::PodSecurity;

/// The operator of `test.jiaozi.com` HelloWorld.
pub struct HelloWorld;

/// The image of nginx. Its welcome page is the greeting.
static IMAGE: OperandImage = OperandImage {
    variable: "HELLOWORLD_IMAGE",
    default: "docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine",
};

static PROGRAM: Program = Program {
    component: "greeter",
    port_name: "http",
    // User `nginx` of nginx-unprivileged.
    run_as_user: 101,
    cpu_request: "10m",
    pod_security: PodSecurity::Restricted,
    // The entry point writes to /etc/nginx, and nginx writes its pid file and bodies to /tmp.
    read_only: false,
    health_path: Some("/"),
    lingers_seconds: 3,
    // Users of the original version select pods by this label.
    legacy_pod_label: Some("hello_name"),
};

impl Operand for HelloWorld {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = HelloWorldSpec;

    fn plan(&self, spec: HelloWorldSpec, settings: &Settings) -> Result<Plan, Refused> {
        Ok(Plan {
            program: &PROGRAM,
            replicas: replicas_within_limit(spec.replicas.into(), "spec.replicas", settings)?,
            image: Image::named_or(spec.image.as_ref(), settings.image(&IMAGE)),
            command: Vec::new(),
            args: Vec::new(),
            container_port: spec.port.unwrap_or(DEFAULT_PORT),
            memory_request: MEMORY_REQUEST.to_owned(),
            workload: spec.workload,
            service: spec.service.as_ref().map(Into::into),
            config: None,
            storage: None,
            others: Vec::new(),
        })
    }
}
