//! `manager migrate-storage`: rewrites every resource in the storage version of its CRD, then removes
//! the older versions from `status.storedVersions`. A change of the storage version rewrites no
//! object by itself, and an object that is stored in the old version cannot be read while the
//! conversion webhook is down.
//!
//! A run has no state, so it can be started again after it was interrupted: the request to rewrite an
//! object that is stored in the new version causes no write. Uses `api`, the list of kinds and the
//! manager's clients. Runs no controller.

mod plan;

use std::io::{self, Write as _};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::plan::{Managers, stored_versions};
use crate::config::MigrateStorage;
use crate::kinds::OPERATORS;
use crate::manager::{Clients, RunError, error_report, run_subcommand};
use quartet_http::RequestError;
use quartet_versions::Kind;

/// The field manager, for the audit log. No field changes, so `managedFields` does not name it.
const FIELD_MANAGER: &str = "quartet-operator-migrate-storage";

/// Concurrent rewrites of a kind: enough to keep the API server busy, few enough to leave capacity for
/// other clients.
const CONCURRENCY: usize = 4;

/// Delay between reading a CRD and the list of its objects: the time in which all replicas of the API
/// server observe a change of a CRD (apiextensions-apiserver, `pkg/controller/establish`). A replica
/// that has not observed it still stores the old version.
const SETTLING: Duration = Duration::from_secs(5);

/// Maximum number of objects whose errors are written.
const MOST_NAMED: usize = 20;

/// Minimum interval between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Pauses between the attempts of one request: 18 s in all, more than a webhook's pod takes to be
/// replaced by another replica.
const PAUSES_MILLISECONDS: [u64; 7] = [250, 500, 1000, 2000, 4000, 5000, 5000];

/// Migrates the CRDs of all kinds that are installed, with progress on standard error.
///
/// # Errors
/// [`RunError`]. Objects that were rewritten before the error remain rewritten.
pub fn run(options: &MigrateStorage) -> Result<(), RunError> {
    let kubeconfig = options.kubeconfig.as_deref();
    run_subcommand(kubeconfig, async |clients| {
        migrate_all(&clients, options).await
    })
}

/// Migrates each kind that can be migrated, and returns what could not be done.
async fn migrate_all(clients: &Clients, options: &MigrateStorage) -> Result<(), RunError> {
    let mut problems = Vec::new();
    for operator in OPERATORS {
        let migration = Migration::new(clients, options, operator.kind());
        if let Err(problem) = migration.migrate().await {
            problems.push(format!("{}: {problem}", migration.name));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(RunError::Incomplete(problems.join("\n")))
}

/// An object as it was listed: namespace, name and resourceVersion.
type Listed = (String, String, Option<String>);

/// The migration of one kind. It writes progress to standard error, and results to standard output; a
/// closed stream does not stop it.
struct Migration<'a> {
    clients: &'a Clients,
    options: &'a MigrateStorage,
    kind: &'a Kind,
    /// Name of the CRD, e.g. `memcacheds.cache.example.com`.
    name: String,
    crds: Api<CustomResourceDefinition>,
}

impl<'a> Migration<'a> {
    fn new(clients: &'a Clients, options: &'a MigrateStorage, kind: &'a Kind) -> Self {
        Self {
            clients,
            options,
            kind,
            name: kind.crd_name(),
            crds: Api::all(clients.calls.clone()),
        }
    }

    fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
    }

    fn result(&self, text: &str) {
        let _ = writeln!(io::stdout(), "{}: {text}", self.name);
    }

    /// Rewrites all objects of the kind, and removes the old versions from `status.storedVersions`.
    ///
    /// # Errors
    /// Why that is not done, for people.
    async fn migrate(&self) -> Result<(), String> {
        let (hub, is_dry_run) = (self.kind.hub.name, self.options.dry_run);
        let action = format!("read the CRD {}", self.name);
        let crd = send(&action, || self.crds.get_opt(&self.name)).await;
        let Some(crd) = crd.map_err(report)? else {
            self.result("not installed");
            return Ok(());
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
            self.trim().await?;
            format!("{written} of {count} objects rewritten, stored in {hub} only")
        };
        self.result(&result);
        if let Some(remaining) = managers.told(self.kind) {
            self.result(&remaining);
        }
        Ok(())
    }

    /// All objects, and who has applied them in the original version.
    async fn list(&self) -> Result<(Vec<Listed>, Managers), String> {
        let (resource, client) = (self.kind.resource(&self.kind.hub), &self.clients.watches);
        let api: Api<PartialObjectMeta> = Api::all_with(client.clone(), &resource);
        let (mut objects, mut managers) = (Vec::new(), Managers::default());
        let (action, mut position) = (format!("list {}", self.name), ListParams::default());
        position.limit = Some(self.options.page_size);
        loop {
            let page = send(&action, || api.list_metadata(&position)).await;
            let page = page.map_err(report)?;
            for object in page.items {
                managers.count(self.kind, &object.metadata);
                let namespace = object.namespace().unwrap_or_default();
                objects.push((namespace, object.name_any(), object.resource_version()));
            }
            position.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if position.continue_token.is_none() {
                return Ok((objects, managers));
            }
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
                    if failed <= MOST_NAMED {
                        self.note(&error_report(&error));
                    }
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
        let (resource, client) = (self.kind.resource(&self.kind.hub), &self.clients.calls);
        let api: Api<PartialObjectMeta> =
            Api::namespaced_with(client.clone(), namespace, &resource);
        let action = format!("rewrite {} {namespace}/{name}", self.kind.kind);
        // The API server rejects a negative number of replicas in any write of an object with a scale
        // subresource, even if it is already stored (apiextensions-apiserver,
        // `pkg/registry/customresource/validator.go`), and old operators stored such objects. A write of
        // the status also stores the whole object, and does not validate the spec. An empty patch changes
        // nothing: the API server writes only if the object is stored in another version.
        let (manager, patch) = (PatchParams::apply(FIELD_MANAGER), Patch::Merge(json!({})));
        match send(&action, || api.patch_status(name, &manager, &patch)).await {
            Ok(now) => Ok(now.metadata.resource_version != *version),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the old versions from `status.storedVersions`, if the CRD still stores the hub version.
    /// Other changes of the CRD, for example of its caBundle, do not matter.
    async fn trim(&self) -> Result<(), String> {
        let action = format!("write status.storedVersions of the CRD {}", self.name);
        let manager = &PatchParams::apply(FIELD_MANAGER);
        // A conflict is a transient error: the CRD is read and checked again.
        let trimmed = send(&action, async || {
            let crd = self.crds.get(&self.name).await?;
            if let Err(problem) = stored_versions(self.kind, &crd) {
                return Ok(Err(problem));
            }
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": crd.metadata.resource_version},
                "status": {"storedVersions": [self.kind.hub.name]},
            }));
            let written = self.crds.patch_status(&self.name, manager, &patch).await;
            written.map(|_| Ok(()))
        });
        trimmed.await.map_err(report)?
    }
}

fn report(error: RequestError) -> String {
    error_report(&error)
}

/// Sends a request, and again after a transient error: no answer, a conflict, or a server that is not
/// ready.
async fn send<T>(action: &str, call: impl AsyncFn() -> kube::Result<T>) -> Result<T, RequestError> {
    let mut pauses = PAUSES_MILLISECONDS.into_iter();
    loop {
        let result = call().await;
        let error = match result.map_err(|error| RequestError::of(action.to_owned(), error)) {
            Err(error) if !is_gone(&error) => error,
            result => return result,
        };
        let is_transient = matches!(error.code(), None | Some(404 | 408 | 409 | 429 | 500..));
        let Some(pause) = pauses.next().filter(|_| is_transient) else {
            return Err(error);
        };
        sleep(Duration::from_millis(pause)).await;
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
