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
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ObjectMeta, PartialObjectMeta};
use serde_json::json;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::api::Kind;
pub use crate::api_server::RequestError;
use crate::api_server::retried;
use crate::config::MigrateStorage;
use crate::manager::{self, Clients, ClusterError, EXIT_USAGE, Signals};
use crate::operators::OPERATORS;
use plan::stored_versions;

/// The field manager, for the audit log. No field changes, so `managedFields` does not name it.
const FIELD_MANAGER: &str = "quartet-operator-migrate-storage";

/// Concurrent rewrites: enough to keep the API server busy, few enough to leave capacity for other
/// clients.
const CONCURRENCY: usize = 10;

/// Delay between reading the CRDs and the first rewrite: the time in which all replicas of the API
/// server observe a change of a CRD (apiextensions-apiserver, `pkg/controller/establish`). A replica
/// that has not observed it still stores the old version.
const SETTLING: Duration = Duration::from_secs(5);

/// Minimum interval between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Pauses between the attempts of one request: 18 s in all, more than a webhook's pod takes to be
/// replaced by another replica.
const PAUSES_MILLISECONDS: [u64; 7] = [250, 500, 1000, 2000, 4000, 5000, 5000];

/// Why a migration failed. Objects that were rewritten before the error remain rewritten.
#[derive(Debug, Error)]
pub enum MigrationError {
    /// The configuration of the cluster is not valid.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An operating system resource is not available.
    #[error("cannot start a runtime")]
    Runtime(#[source] io::Error),
    /// A signal, by its name.
    #[error("stopped by {0}; run this again to rewrite the other objects")]
    Stopped(&'static str),
    /// Kinds that could not be migrated, each with a reason. The others were migrated.
    #[error("{}", .0.join("\n"))]
    Kinds(Vec<String>),
    /// The CRD cannot be migrated in its current form.
    #[error("{0}")]
    NotReady(String),
    /// A request failed, and retries did not help.
    #[error(transparent)]
    Call(#[from] RequestError),
    /// Some objects could not be rewritten. The old versions stay in the lists.
    #[error("{0} objects could not be rewritten; status.storedVersions was left as it was")]
    Incomplete(usize),
}

impl MigrationError {
    /// The exit code of the process: [`EXIT_USAGE`], or 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Cluster(_) => EXIT_USAGE,
            _ => 1,
        }
    }
}

/// Migrates the CRDs of all kinds that are installed, with progress on standard error.
///
/// # Errors
/// [`MigrationError`]: nothing was written if it is `Cluster`.
pub fn run(options: &MigrateStorage) -> Result<(), MigrationError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(MigrationError::Runtime)?;
    let result = runtime.block_on(async {
        // The first process of a container ends at a signal only if it handles it.
        let mut signals = Signals::listen().map_err(MigrationError::Runtime)?;
        let migration = async {
            let clients = manager::connect(options.kubeconfig.as_deref()).await?;
            migrate_all(&clients, options).await
        };
        tokio::select! {
            result = migration => result,
            signal = signals.next() => Err(MigrationError::Stopped(signal)),
        }
    });
    // A plugin of the kubeconfig may still run.
    runtime.shutdown_background();
    result
}

/// Migrates each kind that can be migrated, and returns what could not be done.
async fn migrate_all(clients: &Clients, options: &MigrateStorage) -> Result<(), MigrationError> {
    let mut due = Vec::new();
    let mut problems = Vec::new();
    for operator in OPERATORS {
        let migration = Migration::new(clients, options, operator.kind());
        let hub = migration.kind.hub.name;
        match migration.stored_versions().await {
            Err(error) => problems.push(manager::error_report(&error)),
            Ok(None) => migration.result("not installed"),
            Ok(Some(stored)) if stored == [hub] => {
                migration.result(&format!("stored in {hub} only, nothing to do"));
            }
            Ok(Some(stored)) => due.push((migration, stored.join(", "))),
        }
    }
    if !options.dry_run && !due.is_empty() {
        sleep(SETTLING).await;
    }
    for (migration, stored) in due {
        if let Err(error) = migration.migrate(&stored).await {
            let error = manager::error_report(&error);
            problems.push(format!("{}: {error}", migration.name));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(MigrationError::Kinds(problems))
}

/// Numbers of objects.
#[derive(Default)]
struct Counts {
    done: usize,
    /// Those that were stored in an old version.
    written: usize,
    /// Those that could not be rewritten. They are not done.
    failed: usize,
}

/// The migration of one kind. It writes progress to standard error, and a result line to standard output;
/// a closed stream does not stop it.
struct Migration<'a> {
    clients: &'a Clients,
    options: &'a MigrateStorage,
    kind: &'a Kind,
    crds: Api<CustomResourceDefinition>,
    /// Name of the CRD, e.g. `memcacheds.cache.example.com`.
    name: String,
}

impl<'a> Migration<'a> {
    fn new(clients: &'a Clients, options: &'a MigrateStorage, kind: &'a Kind) -> Self {
        Self {
            clients,
            options,
            kind,
            crds: Api::all(clients.calls.clone()),
            name: format!("{}.{}", kind.plural, kind.group),
        }
    }

    fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
    }

    fn result(&self, text: &str) {
        let _ = writeln!(io::stdout(), "{}: {text}", self.name);
    }

    /// `status.storedVersions` of the CRD, if its objects can be migrated; `None` if it is not installed.
    async fn stored_versions(&self) -> Result<Option<Vec<String>>, MigrationError> {
        let action = format!("read the CRD {}", self.name);
        let crd = send(&action, || self.crds.get_opt(&self.name)).await?;
        let stored = crd.map(|crd| stored_versions(self.kind, &crd)).transpose();
        stored.map_err(MigrationError::NotReady)
    }

    /// Rewrites all objects, which may be stored in the versions `stored`, and removes the old versions from
    /// `status.storedVersions`.
    async fn migrate(&self, stored: &str) -> Result<(), MigrationError> {
        let hub = self.kind.hub.name;
        self.note(&format!("stored in {stored}; rewriting in {hub}"));
        let Counts {
            done,
            written,
            failed,
        } = self.rewrite_all().await?;
        if failed > 0 {
            return Err(MigrationError::Incomplete(failed));
        }
        let result = if self.options.dry_run {
            let cut = format!("status.storedVersions cut from {stored} to {hub}");
            format!("{done} objects would be rewritten, and {cut}")
        } else {
            self.trim().await?;
            format!("{written} of {done} objects rewritten, stored in {hub} only")
        };
        self.result(&result);
        Ok(())
    }

    /// Rewrites all objects, page by page.
    async fn rewrite_all(&self) -> Result<Counts, MigrationError> {
        let (resource, client) = (self.kind.resource(&self.kind.hub), &self.clients.watches);
        let objects: Api<PartialObjectMeta> = Api::all_with(client.clone(), &resource);
        let action = format!("list {}", self.name);
        let mut position = ListParams::default().limit(self.options.page_size);
        let (mut counts, mut last_line) = (Counts::default(), Instant::now());
        loop {
            let page = match send(&action, || objects.list_metadata(&position)).await {
                Ok(page) => page,
                Err(error) => {
                    // If the list expired, the API server offers a token that skips no object that existed
                    // when the list began.
                    let offered = plan::offered_token(&error);
                    if offered.is_none() || offered == position.continue_token {
                        return Err(error.into());
                    }
                    position.continue_token = offered;
                    continue;
                }
            };
            let objects = stream::iter(page.items).map(|object| self.rewrite(object.metadata));
            let mut outcomes = objects.buffer_unordered(CONCURRENCY);
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    Ok(is_written) => {
                        counts.done += 1;
                        counts.written += usize::from(is_written);
                    }
                    Err(error) if plan::is_of_one_object(&error) => {
                        counts.failed += 1;
                        self.note(&manager::error_report(&error));
                    }
                    Err(error) => return Err(error.into()),
                }
                if last_line.elapsed() >= PROGRESS_INTERVAL {
                    last_line = Instant::now();
                    self.note(&format!("{} objects done", counts.done));
                }
            }
            position.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if position.continue_token.is_none() {
                return Ok(counts);
            }
        }
    }

    /// Makes the API server store an object again, unchanged, and returns whether it was stored in another
    /// version.
    async fn rewrite(&self, listed: ObjectMeta) -> Result<bool, RequestError> {
        if self.options.dry_run {
            return Ok(false);
        }
        let (resource, client) = (self.kind.resource(&self.kind.hub), &self.clients.calls);
        let namespace = listed.namespace.unwrap_or_default();
        let name = listed.name.unwrap_or_default();
        let objects: Api<PartialObjectMeta> =
            Api::namespaced_with(client.clone(), &namespace, &resource);
        let action = format!("rewrite {} {namespace}/{name}", self.kind.kind);
        // The API server rejects a negative number of replicas in any write of an object with a scale
        // subresource, even if it is already stored (apiextensions-apiserver,
        // `pkg/registry/customresource/validator.go`), and old operators stored such objects. A write of
        // the status also stores the whole object, and does not validate the spec. An empty patch changes
        // nothing: the API server writes only if the object is stored in another version.
        let (manager, patch) = (PatchParams::apply(FIELD_MANAGER), Patch::Merge(json!({})));
        match send(&action, || objects.patch_status(&name, &manager, &patch)).await {
            Ok(now) => Ok(now.metadata.resource_version != listed.resource_version),
            Err(error) if plan::is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the old versions from `status.storedVersions`, if the CRD still stores the hub version.
    /// Other changes of the CRD, for example of its caBundle, do not matter.
    async fn trim(&self) -> Result<(), MigrationError> {
        let action = format!("write status.storedVersions of the CRD {}", self.name);
        let manager = &PatchParams::apply(FIELD_MANAGER);
        // A conflict is a transient error: the CRD is read and checked again.
        let trimmed = send(&action, || async move {
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
        trimmed.await?.map_err(MigrationError::NotReady)
    }
}

/// Sends a request, and again after a transient error.
async fn send<T, F: Future<Output = kube::Result<T>>>(
    action: &str,
    call: impl Fn() -> F,
) -> Result<T, RequestError> {
    let call = || async {
        let result = call().await;
        result.map_err(|error| RequestError::of(action.to_owned(), error))
    };
    let pauses = PAUSES_MILLISECONDS.map(Duration::from_millis);
    retried(pauses, plan::is_transient, call).await
}

#[cfg(test)]
mod tests;
