//! The plan of a {Kind}: a Deployment. Pure data for `workload`.

use super::operand::{Operand, OperandImage, Settings, ValidationError};
use super::plan::{Plan, WorkloadDefaults};
use crate::api::Kind;
use crate::api::{kind}::{KIND, v1::{Kind}Spec};

/// The operator of `{group}` {Kind}.
pub struct {Kind};

static IMAGE: OperandImage = OperandImage {
    variable: "{KIND}_IMAGE",
    default: "{image}",
};

static DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "{kind}",
    port: 8080,
    // A non-root user of the image.
    run_as_user: 101,
    ..WorkloadDefaults::RESTRICTED
};

impl Operand for {Kind} {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = {Kind}Spec;

    fn plan(&self, spec: {Kind}Spec, settings: &Settings) -> Result<Plan, ValidationError> {
        Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)
    }
}
