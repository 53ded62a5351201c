//! The desired children of a generation of a resource, computed with the library's own functions.

use std::collections::BTreeMap;

use quartet_operator::kinds::OPERATORS;
use quartet_workload::{Child, DEPLOYMENT, Operator, Resource, Settings, kept};
use serde_json::Value;

use super::compare;
use super::history::{History, Key, StatusWrite};

/// A desired child.
pub(super) struct Wanted {
    pub(super) key: Key,
    body: Value,
    /// Paths that depend on the manager's settings, which the log does not have.
    of_settings: Vec<String>,
}

impl Wanted {
    /// Returns the differences of this object from it, as text.
    pub(super) fn lacking_in(&self, object: &Value) -> Vec<String> {
        compare::lacking(&self.body, object)
            .into_iter()
            .filter(|(path, _)| !self.of_settings.iter().any(|other| path.starts_with(other)))
            .map(|(path, what)| format!("{path} is {what}"))
            .collect()
    }
}

/// Returns the operator of the resources with this plural.
pub(super) fn operator(plural: &str) -> Option<&'static dyn Operator> {
    let mut operators = OPERATORS.iter().copied();
    operators.find(|operator| operator.kind().plural == plural)
}

/// Returns the children that `object`, a version of the resource whose status was written, desires.
///
/// # Errors
/// Why a manager rejects the spec.
pub(super) fn children(
    write: &StatusWrite,
    object: &Value,
    history: &History,
) -> Result<Vec<Wanted>, String> {
    let operator = operator(&write.key.plural).ok_or("not one of our kinds")?;
    let kind = operator.kind();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let version = version.rsplit('/').next().unwrap_or_default();
    let version = kind.version(version).ok_or("not one of our versions")?;
    let annotations = object["metadata"].get("annotations");
    let spec = &object["spec"];
    let resource = Resource {
        namespace: write.key.namespace.clone(),
        name: write.key.name.clone(),
        uid: write.uid.clone(),
        generation: write.observed,
        api_version: format!("{}/{}", kind.group, write.api_version),
        spec: quartet_versions::conversion::hub_spec(kind, version, spec, annotations),
        status: Default::default(),
        paused: None,
    };
    let bodies = |image: &str| -> Result<Vec<Child>, String> {
        let images = operator.image().map(|it| (it.variable, image.to_owned()));
        let settings = Settings {
            max_replicas: 0,
            images: images.into_iter().collect::<BTreeMap<_, _>>(),
        };
        let desired = operator.desired(&resource, &settings);
        desired.map_err(|refused| format!("{refused:?}"))
    };
    // Two images that no manager has: the differences between the results depend on the settings.
    let [one, other] = ["oracle.invalid/one:1", "oracle.invalid/other"].map(bodies);
    let key = |child: &Child| Key {
        plural: child.kind.plural.to_owned(),
        namespace: write.key.namespace.clone(),
        name: child.name.clone(),
    };
    let mut selector = None;
    let mut wanted = Vec::new();
    for (mut child, mut other) in one?.into_iter().zip(other?) {
        let key = key(&child);
        if child.kind == DEPLOYMENT {
            let stored = history.past(&key, write).first().map(|it| it.object());
            let controller = kind.controller_name();
            selector = stored.and_then(|it| kept::selector_of(&it, &controller, &resource.name));
        }
        if let Some(selector) = &selector {
            child = kept::keeping(&child, selector);
            other = kept::keeping(&other, selector);
        }
        let mut of_settings: Vec<_> = [(&child, &other), (&other, &child)]
            .into_iter()
            .flat_map(|(one, other)| compare::lacking(&one.body, &other.body))
            .map(|(path, _)| path)
            .collect();
        of_settings.dedup();
        wanted.push(Wanted {
            key,
            body: child.body,
            of_settings,
        });
    }
    Ok(wanted)
}
