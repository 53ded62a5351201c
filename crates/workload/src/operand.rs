//! The part of an operator that all kinds share: from the validation of a spec to children and
//! status. A kind implements [`Operand`]. Pure.

use serde::de::DeserializeOwned;

use super::child::{DEPLOYMENT, Owned, SERVICE};
pub use super::observed::Problem;
use super::operator::{Desired, Operator, Resource};
use super::plan::Plan;
pub use super::settings::{OperandImage, Settings};
use super::workload;
use quartet_versions::Kind;
use quartet_versions::validation::service_name_error;

/// What differs between kinds.
pub trait Operand: Send + Sync + 'static {
    /// Names, versions and rules.
    const KIND: &'static Kind;
    /// The default image of its pods; `None` if every resource must set one.
    const IMAGE: Option<&'static OperandImage>;
    /// The hub's spec.
    type Spec: DeserializeOwned;
    /// The types of its children.
    const OWNS: &'static [Owned] = &[Owned::always(DEPLOYMENT), Owned::optional(SERVICE)];

    /// The plan for a valid spec.
    ///
    /// # Errors
    /// [`Problem`]: a value that this kind computes is invalid.
    fn plan(&self, spec: Self::Spec, settings: &Settings) -> Result<Plan, Problem>;
}

impl<O: Operand> Operator for O {
    fn kind(&self) -> &'static Kind {
        O::KIND
    }

    fn image(&self) -> Option<&'static OperandImage> {
        O::IMAGE
    }

    fn owns(&self) -> &'static [Owned] {
        O::OWNS
    }

    /// Its errors are the last of three layers of validation, for objects that were stored before a rule
    /// existed or without the webhook.
    fn desired(&self, resource: &Resource, settings: &Settings) -> Desired {
        let plan = self.plan(resource.typed_spec()?, settings)?;
        let service = plan.service.as_ref();
        if let Some(error) = service.and_then(|_| service_name_error(&resource.name)) {
            return Err(error.into());
        }
        Ok(workload::children(O::KIND, resource, &plan))
    }
}
