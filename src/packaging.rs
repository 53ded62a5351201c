//! What the manifests contain of this application: `packaging` and `config` have the rest. Used by the
//! generator (`src/bin/generate.rs`) and tests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ServiceReference,
};
use quartet_packaging::{Error, Project, crd};
use quartet_versions::{Kind, Version};
use quartet_webhook::paths;
use serde_json::Value;

use crate::kinds::OPERATORS;
use crate::legacy::LEGACY;
use crate::names::{NAMESPACE, PROJECT, WEBHOOK_SERVICE, WEBHOOK_SERVICE_PORT};
use quartet_runtime::rights;
use quartet_workload::{Operator, owned_by};

/// The kinds, in the order of the list of operators.
pub fn kinds() -> Vec<&'static Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}

/// This application, for the generator.
pub fn project() -> Project {
    Project {
        root: env!("CARGO_MANIFEST_DIR").into(),
        name: PROJECT,
        version: env!("CARGO_PKG_VERSION"),
        operators: OPERATORS.iter().map(|it| operator(*it)).collect(),
        conversion: conversion(),
        validation: paths::validate,
        rules: vec![(
            "CONTROLLER_RULES",
            rights(&kinds(), &owned_by(OPERATORS), LEGACY),
        )],
    }
}

fn operator(operator: &dyn Operator) -> quartet_packaging::Operator {
    let owned = operator.owns().iter();
    let image = operator.image();
    quartet_packaging::Operator {
        kind: operator.kind(),
        owns: owned.map(|it| (it.kind.kind, it.kind.version)).collect(),
        image: image.map(|image| (image.variable, image.default)),
    }
}

fn conversion() -> ServiceReference {
    ServiceReference {
        name: WEBHOOK_SERVICE.to_owned(),
        namespace: NAMESPACE.to_owned(),
        path: Some(paths::CONVERT.to_owned()),
        port: Some(WEBHOOK_SERVICE_PORT),
    }
}

/// The CRD that serves both versions and stores the hub: `config/crd`.
pub fn both_versions(kind: &Kind) -> CustomResourceDefinition {
    crd::both_versions(kind, &kind.hub, conversion())
}

/// The CRD that serves both versions and stores the spoke: `config/crd-transition`.
pub fn transition(kind: &Kind) -> CustomResourceDefinition {
    crd::both_versions(kind, &kind.spoke, conversion())
}

/// The CRD that serves and stores the spoke only: `config/crd-original`.
pub fn original_only(kind: &Kind) -> CustomResourceDefinition {
    kind.crd(&kind.spoke)
}

/// The sample of a version.
///
/// # Errors
/// Its file cannot be read, or is not YAML.
pub fn sample(kind: &Kind, version: &Version) -> Result<Value, Error> {
    project().sample(kind, version)
}

#[cfg(test)]
mod tests;
