//! `manager migrate-storage`: rewrites every resource in the storage version of its CRD, then removes
//! the older versions from `status.storedVersions`. A change of the storage version rewrites no
//! object by itself, and an object that is stored in the old version cannot be read while the
//! conversion webhook is down.
//!
//! A run has no state, so it can be started again after it was interrupted: the request to rewrite an
//! object that is stored in the new version causes no write. Uses `api`, the list of kinds and the
//! manager's clients. Runs no controller.

mod calls;
mod plan;
mod progress;

use std::io;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use thiserror::Error;
use tokio::time::sleep;

use calls::{Listed, Metadata, Migration};
use plan::{Definition, Rejection};
use progress::Progress;

pub use crate::api_server::RequestError;
use crate::config::MigrateStorage;
use crate::manager::{self, Clients, ClusterError, EXIT_USAGE, Signals};
use crate::operators::OPERATORS;

/// Concurrent rewrites: enough to keep the API server busy, few enough to leave capacity for other
/// clients.
const CONCURRENCY: usize = 10;

/// Delay between reading the CRDs and the first rewrite: the time in which all replicas of the API
/// server observe a change of a CRD (apiextensions-apiserver, `pkg/controller/establish`). A replica
/// that has not observed it still stores the old version.
const SETTLING: Duration = Duration::from_secs(5);

/// Maximum number of attempts for one object, list or status after conflicts.
const ATTEMPTS: usize = 10;

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
    /// The CRD was removed while its objects were rewritten.
    #[error("{0} was removed in the meantime")]
    Removed(String),
    /// The CRD or its objects kept changing.
    #[error("{0} kept changing; run this again when it is no longer changed")]
    Unsettled(String),
    /// Some objects could not be rewritten. The old versions stay in the lists.
    #[error("{0} objects could not be rewritten; status.storedVersions was left as it was")]
    Incomplete(u64),
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
        tokio::select! {
            result = connect_and_migrate(options) => result,
            signal = signals.next() => Err(MigrationError::Stopped(signal)),
        }
    });
    // A plugin of the kubeconfig may still run.
    runtime.shutdown_background();
    result
}

async fn connect_and_migrate(options: &MigrateStorage) -> Result<(), MigrationError> {
    let clients = manager::connect(options.kubeconfig.as_deref()).await?;
    migrate_all(&clients, options).await
}

/// Migrates each kind that can be migrated, and returns what could not be done.
async fn migrate_all(clients: &Clients, options: &MigrateStorage) -> Result<(), MigrationError> {
    let mut due = Vec::new();
    let mut problems = Vec::new();
    for kind in OPERATORS.iter().map(|operator| operator.kind()) {
        let migration = Migration {
            clients,
            options,
            kind,
        };
        match migration.crd().await {
            Err(error) => problems.push(manager::error_report(&error)),
            Ok(None) => Progress::of(plan::name_of(kind)).result("not installed"),
            Ok(Some(crd)) => match Definition::of(kind, &crd) {
                Ok(definition) => due.push((migration, definition)),
                Err(problem) => problems.push(problem),
            },
        }
    }
    let mut migrations = due.iter();
    if !options.dry_run && migrations.any(|(it, definition)| !definition.is_migrated(it.kind)) {
        sleep(SETTLING).await;
    }
    // The other kinds are migrated although one cannot be.
    for (migration, definition) in due {
        let name = definition.name.clone();
        if let Err(error) = migration.migrate(definition).await {
            problems.push(format!("{name}: {}", manager::error_report(&error)));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(MigrationError::Kinds(problems)),
    }
}

impl Migration<'_> {
    async fn migrate(&self, definition: Definition) -> Result<(), MigrationError> {
        let mut progress = Progress::of(definition.name.clone());
        let hub = self.kind.hub.name;
        if definition.is_migrated(self.kind) {
            progress.result(&format!("stored in {hub} only, nothing to do"));
            return Ok(());
        }
        let stored = definition.stored_versions.join(", ");
        progress.note(&format!("stored in {stored}; rewriting in {hub}"));
        self.rewrite_all(&mut progress).await?;
        let (count, written) = (progress.done, progress.written);
        if self.options.dry_run {
            progress.result(&format!(
                "{count} objects would be rewritten, and status.storedVersions cut from \
                 {stored} to {hub}"
            ));
            return Ok(());
        }
        if progress.failed > 0 {
            return Err(MigrationError::Incomplete(progress.failed));
        }
        self.trim(&definition.name).await?;
        progress.result(&format!(
            "{written} of {count} objects rewritten, stored in {hub} only"
        ));
        Ok(())
    }

    /// Rewrites all objects, page by page.
    async fn rewrite_all(&self, progress: &mut Progress) -> Result<(), MigrationError> {
        let mut next = String::new();
        let mut expiries = 0;
        loop {
            let page = match self.page(&next).await {
                Ok(page) => page,
                Err(error) => {
                    let expired = error.status().filter(|status| status.code == 410);
                    let Some(status) = expired.filter(|_| expiries < ATTEMPTS) else {
                        return Err(error.into());
                    };
                    expiries += 1;
                    next = plan::after_expiry(status);
                    if next.is_empty() {
                        progress.note("the list expired; starting over");
                        progress.restarted();
                    }
                    continue;
                }
            };
            let objects = page.items.unwrap_or_default();
            let size = u64::try_from(objects.len()).unwrap_or_default();
            let remaining = page.metadata.remaining_item_count.unwrap_or_default();
            progress.listed(size, remaining.unsigned_abs());
            if self.options.dry_run {
                progress.done(size, 0);
            } else {
                self.rewrite_page(objects, progress).await?;
            }
            next = page.metadata.continue_.unwrap_or_default();
            if next.is_empty() {
                return Ok(());
            }
        }
    }

    async fn rewrite_page(
        &self,
        page: Vec<Listed>,
        progress: &mut Progress,
    ) -> Result<(), MigrationError> {
        let objects = page.into_iter().map(|object| object.metadata);
        let rewrites = objects.map(|object| self.rewrite(object));
        let mut outcomes = stream::iter(rewrites).buffer_unordered(CONCURRENCY);
        while let Some(outcome) = outcomes.try_next().await? {
            match outcome {
                Ok(written) => progress.done(1, written.into()),
                Err(error) => progress.failed(&manager::error_report(&error)),
            }
        }
        Ok(())
    }

    /// Rewrites one object, and returns whether a write was needed. The inner error concerns only this
    /// object.
    async fn rewrite(
        &self,
        mut object: Metadata,
    ) -> Result<Result<bool, RequestError>, MigrationError> {
        for _ in 0..ATTEMPTS {
            let error = match self.store_again(&object).await {
                Ok(now) => {
                    let is_same = now.metadata.resource_version == object.resource_version;
                    return Ok(Ok(!is_same));
                }
                Err(error) => error,
            };
            match error.status().map(plan::classify) {
                Some(Rejection::Gone) => return Ok(Ok(false)),
                Some(Rejection::OfThisObject) => return Ok(Err(error)),
                // The writer's API server may not have observed the change of the CRD yet. So the
                // object is rewritten again.
                Some(Rejection::Changed) => match self.read(&object).await? {
                    Some(now) => object = now.metadata,
                    None => return Ok(Ok(false)),
                },
                Some(Rejection::Transient | Rejection::OfEverything) | None => {
                    return Err(error.into());
                }
            }
        }
        Err(MigrationError::Unsettled(self.name_of(&object)))
    }

    /// Removes the old versions from `status.storedVersions` of the CRD `name`, if it still stores the hub
    /// version. Other changes of the CRD, for example of its caBundle, do not matter.
    async fn trim(&self, name: &str) -> Result<(), MigrationError> {
        for _ in 0..ATTEMPTS {
            let Some(crd) = self.crd().await? else {
                return Err(MigrationError::Removed(name.to_owned()));
            };
            let now = Definition::of(self.kind, &crd).map_err(MigrationError::NotReady)?;
            match self.trim_crd(&now).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(MigrationError::Unsettled(name.to_owned()))
    }
}

#[cfg(test)]
mod tests;
