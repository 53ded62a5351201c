//! The plan of an Nginx: nginx servers and, if the spec has one, a Service. Pure data for
//! `workload`.

use super::operand::{Operand, replicas_within_limit};
use super::plan::{Image, Plan, Program};
use super::{OperandImage, Refused, Settings};
use crate::api::Kind;
use crate::api::nginx::{KIND, v1::NginxSpec};
use crate::api::workload::PodSecurity;

/// The operator of `proxy.example.com` Nginx.
pub struct Nginx;

/// Port that nginx-unprivileged listens on.
pub(super) const DEFAULT_PORT: i32 = 8080;
/// Memory request of an nginx that serves files.
pub(super) const MEMORY_REQUEST: &str = "32Mi";

/// Listens on 8080 as user 101.
static IMAGE: OperandImage = OperandImage {
    variable: "NGINX_IMAGE",
    default: "docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine",
};

static PROGRAM: Program = Program {
    component: "proxy",
    port_name: "http",
    // User `nginx` of nginx-unprivileged.
    run_as_user: 101,
    cpu_request: "10m",
    pod_security: PodSecurity::Restricted,
    // The entry point writes to /etc/nginx, and nginx writes its pid file and bodies to /tmp.
    read_only: false,
    health_path: Some("/"),
    lingers_seconds: 3,
    legacy_pod_label: None,
};

impl Operand for Nginx {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = NginxSpec;

    fn plan(&self, spec: NginxSpec, settings: &Settings) -> Result<Plan, Refused> {
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
