//! The plan of an Nginx: nginx servers and, if the spec has one, a Service. Pure data for
//! `workload`.

use super::operand::{Operand, OperandImage, Settings, ValidationError};
use super::plan::{Plan, WorkloadDefaults};
use crate::api::Kind;
use crate::api::nginx::{KIND, v1::NginxSpec};

/// The operator of `proxy.example.com` Nginx.
pub struct Nginx;

/// Listens on 8080 as user 101.
static IMAGE: OperandImage = OperandImage {
    variable: "NGINX_IMAGE",
    default: "docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine",
};

pub(super) const DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "proxy",
    port_name: "http",
    // Port and user `nginx` of nginx-unprivileged.
    port: 8080,
    run_as_user: 101,
    // The entry point writes to /etc/nginx, and nginx writes its pid file and bodies to /tmp.
    read_only: false,
    health_path: Some("/"),
    pre_stop_seconds: 3,
    ..WorkloadDefaults::RESTRICTED
};

impl Operand for Nginx {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = NginxSpec;

    fn plan(&self, spec: NginxSpec, settings: &Settings) -> Result<Plan, ValidationError> {
        Ok(Plan {
            container_port: spec.port.unwrap_or(DEFAULTS.port),
            service: spec.service.map(Into::into),
            ..Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)?
        })
    }
}
