//! `manager migrate-storage`: rewrites every resource in the storage version of its CRD, then removes
//! the older versions from `status.storedVersions`. A change of the storage version rewrites no
//! object by itself, and an object that is stored in the old version cannot be read while the
//! conversion webhook is down.
//!
//! A run has no state, so it can be started again after it was interrupted: the request to rewrite an
//! object that is stored in the new version causes no write. Runs no controller.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use quartet_http::{RequestError, error_report, exponential};
use quartet_versions::Kind;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::Application;
use crate::config::MigrateStorage;

/// Concurrent rewrites of a kind: enough to keep the API server busy, few enough to leave capacity for
/// other clients.
const CONCURRENCY: usize = 4;

/// Delay between reading a CRD and the list of its objects: the time in which all replicas of the API
/// server observe a change of a CRD (apiextensions-apiserver, `pkg/controller/establish`). A replica
/// that has not observed it still stores the old version.
const SETTLING: Duration = Duration::from_secs(5);

/// Minimum interval between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// First and longest pause between the attempts of one request, and the number of pauses: 18 s in all, more
/// than a webhook's pod takes to be replaced by another replica.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const PAUSES: u32 = 7;
/// Limit of one request; a page of a list may have thousands of objects to convert.
const CALL: Duration = Duration::from_secs(60);

/// Migrates the CRDs of all kinds that are installed, with progress on standard error and results on standard
/// output. A closed stream does not stop it.
///
/// # Errors
/// What could not be done. Objects that were rewritten before the error remain rewritten.
pub(crate) async fn run(
    application: &Application,
    client: &Client,
    options: &MigrateStorage,
) -> Result<(), String> {
    let mut problems = Vec::new();
    for operator in application.operators {
        let migration = Migration {
            client,
            options,
            kind: operator.kind(),
            name: operator.kind().crd_name(),
            manager: PatchParams::apply(&application.named("migrate-storage")),
        };
        let name = &migration.name;
        match migration.migrate().await {
            Ok(results) => results.iter().for_each(|result| {
                let _ = writeln!(io::stdout(), "{name}: {result}");
            }),
            Err(problem) => problems.push(format!("{name}: {problem}")),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(problems.join("\n"))
}

/// An object as it was listed: namespace, name and resourceVersion.
type Listed = (String, String, Option<String>);

/// The migration of one kind.
struct Migration<'a> {
    client: &'a Client,
    options: &'a MigrateStorage,
    kind: &'a Kind,
    /// Name of the CRD, e.g. `widgets.example.com`.
    name: String,
    /// The field manager, for the audit log. No field changes, so `managedFields` does not name it.
    manager: PatchParams,
}

impl Migration<'_> {
    fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
    }

    /// Rewrites all objects of the kind, and removes the old versions from `status.storedVersions`. Returns
    /// lines with the results.
    ///
    /// # Errors
    /// Why that is not done, for people.
    async fn migrate(&self) -> Result<Vec<String>, String> {
        let (hub, is_dry_run) = (self.kind.hub.name, self.options.dry_run);
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let action = format!("read the CRD {}", self.name);
        let crd = send(&action, || crds.get_opt(&self.name)).await;
        let Some(crd) = crd.map_err(report)? else {
            return Ok(vec!["not installed".to_owned()]);
        };
        let stored = stored_versions(self.kind, &crd)?;
        let is_due = stored != [hub];
        let stored = stored.join(", ");
        if is_due && !is_dry_run {
            self.note(&format!("stored in {stored}; rewriting in {hub}"));
            sleep(SETTLING).await;
        }
        let (objects, managers) = self.list().await?;
        let count = objects.len();
        let result = if !is_due {
            format!("stored in {hub} only, nothing to do")
        } else if is_dry_run {
            let cut = format!("status.storedVersions cut from {stored} to {hub}");
            format!("{count} objects would be rewritten, and {cut}")
        } else {
            let written = self.rewrite_all(&objects).await?;
            self.trim(&crds).await?;
            format!("{written} of {count} objects rewritten, stored in {hub} only")
        };
        Ok([result].into_iter().chain(managers).collect())
    }

    /// All objects, and what to tell the administrator of those whose `metadata.managedFields` have entries
    /// in the original version: the API server converts an object to the version of each entry in every
    /// write.
    async fn list(&self) -> Result<(Vec<Listed>, Option<String>), String> {
        let api: Api<DynamicObject> = self.api(None);
        let (mut objects, mut count, mut managers) = (Vec::new(), 0, BTreeSet::new());
        let (action, mut position) = (format!("list {}", self.name), ListParams::default());
        position.limit = Some(self.options.page_size);
        loop {
            let page = send(&action, || api.list_metadata(&position)).await;
            let page = page.map_err(report)?;
            for object in page.items {
                let entries = original_managers(self.kind, &object.metadata);
                count += usize::from(!entries.is_empty());
                managers.extend(entries);
                let namespace = object.namespace().unwrap_or_default();
                objects.push((namespace, object.name_any(), object.resource_version()));
            }
            position.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if position.continue_token.is_none() {
                break;
            }
        }
        let (hub, spoke) = (self.kind.hub.name, self.kind.spoke.name);
        let managers = Vec::from_iter(managers).join(", ");
        let told = format!(
            "{count} objects have managedFields in {spoke}, of {managers}: a write of them needs the \
             conversion webhook until the same manager applies them in {hub}"
        );
        Ok((objects, (count > 0).then_some(told)))
    }

    /// The objects in the hub version, of all namespaces or one.
    fn api(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let (client, resource) = (self.client.clone(), self.kind.resource(&self.kind.hub));
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// Rewrites `objects`, and returns how many were stored in another version.
    async fn rewrite_all(&self, objects: &[Listed]) -> Result<usize, String> {
        let (mut done, mut written, mut failed) = (0, 0, 0);
        let mut told = Instant::now();
        let rewrites = stream::iter(objects).map(|object| self.rewrite(object));
        let mut outcomes = rewrites.buffer_unordered(CONCURRENCY);
        while let Some(outcome) = outcomes.next().await {
            done += 1;
            match outcome {
                Ok(is_written) => written += usize::from(is_written),
                // Only this object cannot be written.
                Err(error) if matches!(error.code(), Some(400 | 413 | 422)) => {
                    failed += 1;
                    self.note(&error_report(&error));
                }
                Err(error) => return Err(report(error)),
            }
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                self.note(&format!("{done} of {} objects done", objects.len()));
            }
        }
        if failed > 0 {
            return Err(format!(
                "{failed} objects could not be rewritten; status.storedVersions was left as it was"
            ));
        }
        Ok(written)
    }

    /// Makes the API server store an object again, unchanged, and returns whether it was stored in another
    /// version.
    async fn rewrite(&self, (namespace, name, version): &Listed) -> Result<bool, RequestError> {
        let api = self.api(Some(namespace));
        let action = format!("rewrite {} {namespace}/{name}", self.kind.kind);
        // The API server rejects a negative number of replicas in any write of an object with a scale
        // subresource, even if it is already stored (apiextensions-apiserver,
        // `pkg/registry/customresource/validator.go`), and old operators stored such objects. A write of
        // the status also stores the whole object, and does not validate the spec. An empty patch changes
        // nothing: the API server writes only if the object is stored in another version.
        let patch = Patch::Merge(json!({}));
        match send(&action, || api.patch_status(name, &self.manager, &patch)).await {
            Ok(now) => Ok(now.metadata.resource_version != *version),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the old versions from `status.storedVersions`, if the CRD still stores the hub version.
    /// Other changes of the CRD, for example of its caBundle, do not matter.
    async fn trim(&self, crds: &Api<CustomResourceDefinition>) -> Result<(), String> {
        let action = format!("write status.storedVersions of the CRD {}", self.name);
        // A conflict is a transient error: the CRD is read and checked again.
        let trimmed = send(&action, async || {
            let crd = crds.get(&self.name).await?;
            if let Err(problem) = stored_versions(self.kind, &crd) {
                return Ok(Err(problem));
            }
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": crd.metadata.resource_version},
                "status": {"storedVersions": [self.kind.hub.name]},
            }));
            let written = crds.patch_status(&self.name, &self.manager, &patch).await;
            written.map(|_| Ok(()))
        });
        trimmed.await.map_err(report)?
    }
}

/// `status.storedVersions` of `crd`: every version in which an object of `kind` may be stored.
///
/// # Errors
/// Why the objects cannot be rewritten in the hub version, with the remedy.
fn stored_versions(kind: &Kind, crd: &CustomResourceDefinition) -> Result<Vec<String>, String> {
    let (hub, versions) = (kind.hub.name, &crd.spec.versions);
    let stored = versions.iter().find(|version| version.storage);
    let stored = stored.map_or("no version", |version| &version.name);
    let conversion = crd.spec.conversion.as_ref();
    let problem = if stored != hub {
        // New objects are not stored in the hub version.
        format!("stores {stored}, and only what is stored in {hub} can be migrated to it")
    } else if versions.len() > 1 && conversion.is_none_or(|it| it.strategy != "Webhook") {
        // The API server would change only `apiVersion`, and drop unknown fields.
        "has several versions and no conversion webhook, so that rewriting would lose fields".into()
    } else {
        let status = crd.status.clone().unwrap_or_default();
        return Ok(status.stored_versions.unwrap_or_default());
    };
    let name = kind.crd_name();
    Err(format!("{name} {problem}; apply config/crd first"))
}

/// The managers of the entries in the original version.
fn original_managers(kind: &Kind, object: &ObjectMeta) -> Vec<String> {
    let original = Some(kind.api_version(&kind.spoke));
    let entries = object.managed_fields.iter().flatten();
    let has_two = kind.spoke.name != kind.hub.name;
    let entries = entries.filter(|entry| has_two && entry.api_version == original);
    let named = entries.map(|entry| {
        let manager = entry.manager.as_deref().unwrap_or_default();
        let operation = entry.operation.as_deref().unwrap_or_default();
        format!("{manager} ({operation})")
    });
    named.collect()
}

fn report(error: RequestError) -> String {
    error_report(&error)
}

/// Sends a request, and again after a transient error: no answer, a conflict, or a server that is not
/// ready.
async fn send<T>(action: &str, call: impl AsyncFn() -> kube::Result<T>) -> Result<T, RequestError> {
    let mut attempt = 0;
    loop {
        let result = timeout(CALL, call()).await;
        let result = result.unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into())));
        let error = match result.map_err(|error| RequestError::of(action.to_owned(), error)) {
            Err(error) if !is_gone(&error) => error,
            result => return result,
        };
        let is_transient = matches!(error.code(), None | Some(404 | 408 | 409 | 429 | 500..));
        if !is_transient || attempt == PAUSES {
            return Err(error);
        }
        sleep(exponential(FIRST_PAUSE, attempt, LONGEST_PAUSE)).await;
        attempt += 1;
    }
}

/// Whether an error says that the object does not exist. An API server that does not serve the version yet,
/// or a proxy before it, also answers 404, without the object's name.
fn is_gone(error: &RequestError) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    error.is_not_found() && details.is_some_and(|details| !details.name.is_empty())
}

#[cfg(test)]
mod tests;
