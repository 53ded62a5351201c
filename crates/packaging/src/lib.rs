#![doc = include_str!("../README.md")]
#![allow(clippy::indexing_slicing, reason = "fields of JSON objects")]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api_reference;
mod command;
pub mod crd;
mod descriptor;
mod fields;
mod generator;
mod image;
mod merge;
mod release;
mod scaffold;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ServiceReference;
use quartet_versions::{Kind, Version};

pub use command::run;
pub use fields::sample_file;
pub use generator::Generator;
pub use release::Release;
pub use scaffold::scaffold;
use template::Fields;

/// Generated files: their texts by path.
pub type Files = BTreeMap<PathBuf, String>;

/// What the application gives to the generator.
#[derive(Debug)]
pub struct Project {
    /// Root directory of the repository. Templates are in `packaging` below it, hand-written manifests
    /// in `config`.
    pub root: PathBuf,
    /// Name of the project, and of its package for OLM.
    pub name: &'static str,
    /// Version of the sources, without a `v`.
    pub version: &'static str,
    /// The operators, in the order of the manifests.
    pub operators: Vec<Operator>,
    /// Service and path of the conversion webhook.
    pub conversion: ServiceReference,
    /// Path of the admission webhook of a version.
    pub validation: fn(&Kind, &Version) -> String,
    /// RBAC rules that follow from the code, by placeholder.
    pub rules: Vec<(&'static str, Vec<PolicyRule>)>,
}

/// One operator.
#[derive(Debug)]
pub struct Operator {
    /// Its kind.
    pub kind: &'static Kind,
    /// Kind and version of the objects that it creates, e.g. `Service` and `v1`.
    pub owns: Vec<(&'static str, &'static str)>,
    /// The environment variable of the manager with the image of its pods, e.g. `NGINX_IMAGE`, and
    /// the default image.
    pub image: Option<(&'static str, &'static str)>,
}

/// A file cannot be read, parsed, generated or written, or an option is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// Wraps the cause of a failure at `what`.
    fn of<E: Display>(what: impl Display) -> impl FnOnce(E) -> Self {
        move |cause| Self(format!("{what}: {cause}"))
    }
}
