//! Whether the objects of a CRD can be migrated, and what depends on the original version afterwards. Pure.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use kube::core::ObjectMeta;

use quartet_versions::Kind;

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

/// The objects whose `metadata.managedFields` have entries in the original version. The API server converts
/// an object to the version of each entry in every write.
#[derive(Default)]
pub(super) struct Managers {
    objects: usize,
    names: BTreeSet<String>,
}

impl Managers {
    /// Counts `object`, if it has such entries.
    pub(super) fn count(&mut self, kind: &Kind, object: &ObjectMeta) {
        let original = kind.api_version(&kind.spoke);
        let entries = object.managed_fields.iter().flatten();
        let mut entries = entries
            .filter(|entry| entry.api_version.as_ref() == Some(&original))
            .peekable();
        self.objects += usize::from(entries.peek().is_some());
        self.names.extend(entries.map(|entry| {
            let (manager, operation) = (entry.manager.as_deref(), entry.operation.as_deref());
            format!(
                "{} ({})",
                manager.unwrap_or_default(),
                operation.unwrap_or_default()
            )
        }));
    }

    /// What to tell the administrator; `None` if no object has such entries.
    pub(super) fn told(self, kind: &Kind) -> Option<String> {
        let (spoke, hub) = (kind.spoke.name, kind.hub.name);
        let names = self.names.into_iter().collect::<Vec<_>>().join(", ");
        (self.objects > 0).then(|| {
            format!(
                "{} objects have managedFields in {spoke}, of {names}: a write of them needs the \
                 conversion webhook until the same manager applies them in {hub}",
                self.objects
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::memcached::KIND;
    use crate::packaging;

    fn stored(versions: &[&str]) -> CustomResourceDefinition {
        let mut crd = packaging::both_versions(&KIND);
        crd.metadata.resource_version = Some("7".to_owned());
        let versions = versions.iter().map(|&version| version.to_owned()).collect();
        crd.status.get_or_insert_default().stored_versions = Some(versions);
        crd
    }

    #[test]
    fn a_crd_that_stores_the_old_version_is_rejected_with_the_way_out() {
        let rejected = stored_versions(&KIND, &packaging::transition(&KIND)).unwrap_err();
        assert_eq!(
            rejected,
            "memcacheds.cache.example.com stores v1alpha1, and only what is stored in v1 can be \
             migrated to it; apply config/crd first"
        );
        assert!(stored_versions(&KIND, &packaging::original_only(&KIND)).is_err());
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
    fn objects_with_entries_in_the_original_version_are_counted_with_their_managers() {
        let mut managers = Managers::default();
        for entries in [
            vec![
                ("kubectl", "Apply", "v1"),
                ("manager", "Update", "v1alpha1"),
            ],
            vec![
                ("helm", "Apply", "v1alpha1"),
                ("manager", "Update", "v1alpha1"),
            ],
            vec![("kubectl", "Apply", "v1")],
            vec![],
        ] {
            let entries = entries.into_iter().map(|(manager, operation, version)| {
                json!({
                    "manager": manager, "operation": operation,
                    "apiVersion": format!("{}/{version}", KIND.group),
                })
            });
            let metadata = json!({"managedFields": entries.collect::<Vec<_>>()});
            managers.count(&KIND, &serde_json::from_value(metadata).unwrap());
        }
        assert_eq!(
            managers.told(&KIND).unwrap(),
            "2 objects have managedFields in v1alpha1, of helm (Apply), manager (Update): a write of \
             them needs the conversion webhook until the same manager applies them in v1"
        );
        let mut none = Managers::default();
        none.count(&KIND, &ObjectMeta::default());
        assert_eq!(none.told(&KIND), None);
    }
}
