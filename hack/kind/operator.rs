//! The plan of a {Kind}: a Deployment. Pure data for `workload`.

use super::operand::{Operand, replicas_within_limit};
use super::plan::{Image, Plan, Program};
use super::{OperandImage, Refused, Settings};
use crate::api::Kind;
use crate::api::workload::PodSecurity;
use crate::api::{kind}::{KIND, v1::{Kind}Spec};

/// The operator of `{group}` {Kind}.
pub struct {Kind};

/// Default image of the pods.
static IMAGE: OperandImage = OperandImage {
    variable: "{KIND}_IMAGE",
    default: "{image}",
};

static PROGRAM: Program = Program {
    component: "{kind}",
    port_name: "main",
    // A non-root user of the image.
    run_as_user: 101,
    cpu_request: "10m",
    pod_security: PodSecurity::Restricted,
    read_only: false,
    health_path: None,
    lingers_seconds: 0,
    legacy_pod_label: None,
};

impl Operand for {Kind} {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = {Kind}Spec;

    fn plan(&self, spec: {Kind}Spec, settings: &Settings) -> Result<Plan, Refused> {
        Ok(Plan {
            program: &PROGRAM,
            replicas: replicas_within_limit(spec.replicas.into(), "spec.replicas", settings)?,
            image: Image::named_or(spec.image.as_ref(), settings.image(&IMAGE)),
            command: Vec::new(),
            args: Vec::new(),
            container_port: 8080,
            memory_request: "32Mi".to_owned(),
            workload: spec.workload,
            service: None,
            config: None,
            storage: None,
            others: Vec::new(),
        })
    }
}
