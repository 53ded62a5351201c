//! The interface of an operator: from a resource to its children, and from the observed children to
//! its status. Pure. Implemented by `operand` for all kinds; used by the controllers.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::child::{Child, Owned};
use super::observed::{Observed, Problem};
use super::settings::{OperandImage, Settings};
use super::status;
use crate::api::Status;
use quartet_versions::Kind;
use quartet_versions::validation::FieldError;

/// The pure part of a controller.
pub trait Operator: Send + Sync + 'static {
    /// Names, versions, conversion and validation of the resource.
    fn kind(&self) -> &'static Kind;

    /// The default image of its pods; `None` if every resource must set one, or has no pods.
    fn image(&self) -> Option<&'static OperandImage> {
        None
    }

    /// The types of its children. The controller watches, and has RBAC rules for, no other types.
    fn owns(&self) -> &'static [Owned];

    /// The desired children of the resource, in the order of apply, each of an owned type. The
    /// status counts the pods of the first child that creates pods.
    ///
    /// # Errors
    /// [`Problem`]: the spec violates a rule or a limit. Then nothing is applied.
    fn desired(&self, resource: &Resource, settings: &Settings) -> Desired;

    /// The status for the observed state, which is at least as new as the last apply of
    /// `desired`. Deterministic: the same input gives the same status, and times of conditions
    /// change only with their status.
    fn status(&self, resource: &Resource, desired: &Desired, observed: &Observed) -> Status {
        status::of(self.kind(), resource, desired, observed)
    }
}

/// The desired children of a resource, or why nothing is applied.
pub type Desired = Result<Vec<Child>, Problem>;

/// The types of children of `operators`, without duplicates. A type is optional if it is for any
/// operator.
pub fn owned_by(operators: &[&dyn Operator]) -> Vec<Owned> {
    let mut all: Vec<Owned> = Vec::new();
    for owned in operators.iter().flat_map(|operator| operator.owns()) {
        match all.iter_mut().find(|known| known.kind == owned.kind) {
            Some(known) => known.optional |= owned.optional,
            None => all.push(*owned),
        }
    }
    all
}

impl fmt::Debug for dyn Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind().kind)
    }
}

/// A custom resource with the spec in the hub version, whatever version was read.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, which distinguishes the resource from a later one of the same name.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `apiVersion` for owner references to it; must be a served version.
    pub api_version: String,
    /// Spec in the hub version.
    pub spec: Value,
    /// Status as last read or written.
    pub status: Status,
    /// Value of the annotation [`Brand::paused`](quartet_versions::Brand::paused), if it pauses the resource:
    /// nothing is applied.
    pub paused: Option<String>,
}

impl Resource {
    /// The spec as the Rust type of the hub version.
    ///
    /// # Errors
    /// [`Problem`]: the type cannot hold it.
    pub fn typed_spec<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        T::deserialize(&self.spec)
            .map_err(|error| FieldError::invalid("spec", None, &error.to_string()).into())
    }
}
