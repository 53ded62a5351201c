//! Decisions of a migration: whether a CRD can be migrated, how an error of the API server is handled,
//! and when `status.storedVersions` can be updated. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::Status;
use serde_json::{Value, json};

use crate::api::Kind;

/// A CRD whose storage version is the hub version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// `metadata.name`.
    pub(super) name: String,
    /// `metadata.resourceVersion` of the CRD: the precondition of the final write.
    pub(super) resource_version: String,
    /// `status.storedVersions`: every version in which an object may still be stored.
    pub(super) stored_versions: Vec<String>,
}

impl Definition {
    /// The relevant fields of `crd`, if objects can be rewritten in the hub version of `kind`.
    ///
    /// # Errors
    /// Why the CRD cannot be migrated, with the remedy.
    pub(super) fn of(kind: &Kind, crd: &CustomResourceDefinition) -> Result<Self, String> {
        let (name, hub) = (name_of(kind), kind.hub.name);
        let versions = &crd.spec.versions;
        let stored = versions.iter().find(|version| version.storage);
        let stored_name = stored.map_or("no version", |version| &version.name);
        let conversion = crd.spec.conversion.as_ref();
        let problem = if stored_name != hub {
            // New objects are not stored in the hub version.
            format!("stores {stored_name}, and only what is stored in {hub} can be migrated to it")
        } else if !stored.is_some_and(|version| version.served) {
            format!("does not serve {hub}")
        } else if versions.len() > 1 && conversion.is_none_or(|it| it.strategy != "Webhook") {
            // The API server would change only `apiVersion`, and drop unknown fields.
            "has several versions and no conversion webhook, so that rewriting would lose fields"
                .into()
        } else {
            let status = crd.status.as_ref();
            let stored_versions = status.and_then(|status| status.stored_versions.clone());
            return Ok(Self {
                name,
                resource_version: crd.metadata.resource_version.clone().unwrap_or_default(),
                stored_versions: stored_versions.unwrap_or_default(),
            });
        };
        Err(format!("{name} {problem}; apply config/crd first"))
    }

    /// Whether all objects are stored in the hub version of `kind`.
    pub(super) fn is_migrated(&self, kind: &Kind) -> bool {
        self.stored_versions == [kind.hub.name]
    }

    /// A merge patch of `/status` that leaves only the hub version in the list, with the precondition
    /// that the CRD has not changed.
    pub(super) fn trim(&self, kind: &Kind) -> Value {
        json!({
            "metadata": {"resourceVersion": self.resource_version},
            "status": {"storedVersions": [kind.hub.name]},
        })
    }
}

/// Name of a kind's CRD, e.g. `memcacheds.cache.example.com`.
pub(super) fn name_of(kind: &Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// A merge patch of `/status` without changes: the API server writes the object only if it is stored in
/// another version.
pub(super) fn rewrite(uid: &str, resource_version: &str) -> Value {
    json!({"metadata": {"uid": uid, "resourceVersion": resource_version}})
}

/// Classification of the API server's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The object was deleted. Nothing is left to do.
    Gone,
    /// A conflict: read the object again.
    Changed,
    /// A transient error: retry.
    Transient,
    /// The error concerns only this object.
    OfThisObject,
    /// The error concerns all objects.
    OfEverything,
}

/// Whether an error says that the object does not exist. An API server that does not serve the version yet,
/// or a proxy before it, also answers 404, without the object's name.
pub(super) fn is_gone(status: &Status) -> bool {
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|details| !details.name.is_empty())
}

/// Classifies an error of the API server.
pub(super) fn classify(status: &Status) -> Rejection {
    match status.code {
        404 if is_gone(status) => Rejection::Gone,
        404 => Rejection::Transient,
        409 => Rejection::Changed,
        408 | 429 | 500..=599 => Rejection::Transient,
        401 | 403 | 405 | 415 => Rejection::OfEverything,
        _ => Rejection::OfThisObject,
    }
}

/// The `continue` token after an expired list (410): the one that the API server offers, which skips no
/// object that existed when the list began, or none, which starts the list again.
pub(super) fn after_expiry(status: &Status) -> String {
    let offered = status.metadata.as_ref().and_then(|it| it.continue_.clone());
    offered.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::memcached::KIND;
    use crate::packaging::crd;

    fn stored(versions: &[&str]) -> CustomResourceDefinition {
        let mut crd = crd::both_versions(&KIND);
        crd.metadata.resource_version = Some("7".to_owned());
        let versions = versions.iter().map(|&version| version.to_owned()).collect();
        crd.status.get_or_insert_default().stored_versions = Some(versions);
        crd
    }

    fn definition(versions: &[&str]) -> Definition {
        Definition::of(&KIND, &stored(versions)).unwrap()
    }

    #[test]
    fn a_crd_that_stores_the_old_version_is_rejected_with_the_way_out() {
        let rejected = Definition::of(&KIND, &crd::transition(&KIND)).unwrap_err();
        assert_eq!(
            rejected,
            "memcacheds.cache.example.com stores v1alpha1, and only what is stored in v1 can be \
             migrated to it; apply config/crd first"
        );
        assert!(Definition::of(&KIND, &crd::original_only(&KIND)).is_err());
    }

    #[test]
    fn a_crd_whose_conversion_would_drop_fields_is_rejected() {
        let mut crd = stored(&["v1alpha1", "v1"]);
        crd.spec.conversion = None;
        assert_eq!(
            Definition::of(&KIND, &crd).unwrap_err(),
            "memcacheds.cache.example.com has several versions and no conversion webhook, so that \
             rewriting would lose fields; apply config/crd first"
        );
        // With one version there is nothing to convert.
        crd.spec.versions.retain(|version| version.name == "v1");
        assert!(Definition::of(&KIND, &crd).is_ok());
    }

    #[test]
    fn a_crd_that_does_not_serve_what_it_stores_is_rejected() {
        let mut crd = stored(&["v1"]);
        for version in &mut crd.spec.versions {
            version.served = version.name != "v1";
        }
        assert_eq!(
            Definition::of(&KIND, &crd).unwrap_err(),
            "memcacheds.cache.example.com does not serve v1; apply config/crd first"
        );
    }

    #[test]
    fn a_crd_is_migrated_when_the_hub_is_alone_in_its_list() {
        assert!(definition(&["v1"]).is_migrated(&KIND));
        for versions in [
            &["v1alpha1", "v1"][..],
            &["v1", "v1alpha1"],
            &["v1alpha1"],
            &[],
        ] {
            assert!(!definition(versions).is_migrated(&KIND), "{versions:?}");
        }
    }

    #[test]
    fn a_rewrite_is_of_one_object_in_one_state_and_changes_nothing() {
        let patch = rewrite("u-1", "42");
        assert_eq!(
            patch,
            json!({"metadata": {"uid": "u-1", "resourceVersion": "42"}})
        );
    }

    #[test]
    fn each_rejection_is_classified() {
        for (code, expected) in [
            (404, Rejection::Gone),
            (409, Rejection::Changed),
            (429, Rejection::Transient),
            (500, Rejection::Transient),
            (503, Rejection::Transient),
            (403, Rejection::OfEverything),
            (422, Rejection::OfThisObject),
            (400, Rejection::OfThisObject),
        ] {
            let mut status = Status::failure("no", "No").with_code(code);
            status.details = serde_json::from_value(json!({"name": "a"})).unwrap();
            assert_eq!(classify(&status), expected, "{code}");
        }
        // As of a server or a proxy that does not know the path.
        let status = Status::failure("no", "NotFound").with_code(404);
        assert_eq!(classify(&status), Rejection::Transient);
    }

    #[test]
    fn an_expired_list_goes_on_where_the_api_server_offers_or_from_the_start() {
        let expired = |metadata: Value| -> Status {
            serde_json::from_value(json!({"code": 410, "metadata": metadata})).unwrap()
        };
        assert_eq!(
            after_expiry(&expired(json!({"continue": "there"}))),
            "there"
        );
        assert_eq!(after_expiry(&expired(json!({"continue": ""}))), "");
        assert_eq!(after_expiry(&expired(json!({}))), "");
    }
}
