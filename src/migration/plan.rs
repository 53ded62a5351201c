//! Whether the objects of a CRD can be migrated, and what an error of the API server means. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::api::Kind;
use crate::api_server::RequestError;

/// `status.storedVersions` of `crd`: every version in which an object of `kind` may be stored.
///
/// # Errors
/// Why the objects cannot be rewritten in the hub version, with the remedy.
pub(super) fn stored_versions(
    kind: &Kind,
    crd: &CustomResourceDefinition,
) -> Result<Vec<String>, String> {
    let hub = kind.hub.name;
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
        "has several versions and no conversion webhook, so that rewriting would lose fields".into()
    } else {
        let status = crd.status.as_ref();
        let stored_versions = status.and_then(|status| status.stored_versions.clone());
        return Ok(stored_versions.unwrap_or_default());
    };
    let (plural, group) = (kind.plural, kind.group);
    Err(format!(
        "{plural}.{group} {problem}; apply config/crd first"
    ))
}

/// Whether an error says that the object does not exist. An API server that does not serve the version yet,
/// or a proxy before it, also answers 404, without the object's name.
pub(super) fn is_gone(error: &RequestError) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    error.is_not_found() && details.is_some_and(|details| !details.name.is_empty())
}

/// Whether a retry may help: no answer, a conflict, or a server that is not ready.
pub(super) fn is_transient(error: &RequestError) -> bool {
    let code = error.status().map(|status| status.code);
    matches!(code, None | Some(404 | 408 | 409 | 429 | 500..=599)) && !is_gone(error)
}

/// Whether an error concerns only one object: the others can be rewritten.
pub(super) fn is_of_one_object(error: &RequestError) -> bool {
    matches!(
        error.status().map(|status| status.code),
        Some(400 | 413 | 422)
    )
}

/// The `continue` token that the API server offers with the error of an expired list.
pub(super) fn offered_token(error: &RequestError) -> Option<String> {
    let expired = error.status().filter(|status| status.code == 410)?;
    let token = expired.metadata.as_ref()?.continue_.clone();
    token.filter(|token| !token.is_empty())
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

    #[test]
    fn a_crd_that_stores_the_old_version_is_rejected_with_the_way_out() {
        let rejected = stored_versions(&KIND, &crd::transition(&KIND)).unwrap_err();
        assert_eq!(
            rejected,
            "memcacheds.cache.example.com stores v1alpha1, and only what is stored in v1 can be \
             migrated to it; apply config/crd first"
        );
        assert!(stored_versions(&KIND, &crd::original_only(&KIND)).is_err());
    }

    #[test]
    fn a_crd_whose_conversion_would_drop_fields_is_rejected() {
        let mut crd = stored(&["v1alpha1", "v1"]);
        crd.spec.conversion = None;
        assert_eq!(
            stored_versions(&KIND, &crd).unwrap_err(),
            "memcacheds.cache.example.com has several versions and no conversion webhook, so that \
             rewriting would lose fields; apply config/crd first"
        );
        // With one version there is nothing to convert.
        crd.spec.versions.retain(|version| version.name == "v1");
        assert!(stored_versions(&KIND, &crd).is_ok());
    }

    #[test]
    fn a_crd_that_does_not_serve_what_it_stores_is_rejected() {
        let mut crd = stored(&["v1"]);
        for version in &mut crd.spec.versions {
            version.served = version.name != "v1";
        }
        assert_eq!(
            stored_versions(&KIND, &crd).unwrap_err(),
            "memcacheds.cache.example.com does not serve v1; apply config/crd first"
        );
    }

    #[test]
    fn a_crd_in_its_form_has_a_list_of_versions() {
        let crd = stored(&["v1alpha1", "v1"]);
        assert_eq!(stored_versions(&KIND, &crd).unwrap(), ["v1alpha1", "v1"]);
        let unknown = crd::both_versions(&KIND);
        assert_eq!(stored_versions(&KIND, &unknown).unwrap().len(), 0);
    }
}
