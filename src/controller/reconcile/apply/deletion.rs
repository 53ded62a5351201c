//! Deletes children that the spec no longer wants. Only Services are optional.

use tracing::info;

use super::{Applier, ApplyError, pending_deletion};
use crate::controller::cache::cached::CachedService;
use crate::controller::call::{CallError, Location};
use crate::controller::children::terminating;
use crate::operators::{Child, ChildKind, Resource};

impl Applier {
    /// Deletes the Services of the resource that are not among its desired `children`.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] if the resource has changed since it was read,
    /// [`ApplyError::Pending`] while a finalizer holds a Service.
    pub(super) async fn delete_unwanted(
        &self,
        resource: &Resource,
        children: &[Child],
    ) -> Result<(), ApplyError> {
        for service in self.children.services(&resource.uid) {
            let is_asked_for = children.iter().any(|child| {
                child.kind == ChildKind::Service && child.name == service.meta.key.name()
            });
            if is_asked_for {
                continue;
            }
            if !service.meta.deleting {
                // A Service that is deleted for an old generation cannot be restored with its IP.
                if self.live_generation(resource).await? > resource.generation {
                    return Err(ApplyError::Stale);
                }
                if !self.delete_service(resource, &service).await? {
                    continue;
                }
            }
            // Still there: a finalizer holds it.
            let left = self.children.services(&resource.uid);
            if left.iter().any(|it| it.meta.deleting) {
                return Err(pending_deletion(terminating(
                    ChildKind::Service,
                    &service.meta.key,
                )));
            }
        }
        Ok(())
    }

    /// Deletes a Service of ours that the spec no longer wants, the only delete there is. Returns
    /// whether a finalizer holds it.
    async fn delete_service(
        &self,
        resource: &Resource,
        service: &CachedService,
    ) -> Result<bool, CallError> {
        let meta = &service.meta;
        let mut is_held = false;
        let at = Location::of_child(ChildKind::Service, meta.key.namespace(), meta.key.name());
        match self
            .caller
            .delete(at, &meta.uid, meta.resource_version)
            .await
        {
            Ok(answer) => {
                is_held = answer.pointer("/metadata/deletionTimestamp").is_some();
                if is_held {
                    self.children.put_written(ChildKind::Service, &answer);
                } else {
                    // Until the watch reports the deletion, the Service counts as terminating.
                    let services = &self.children.services;
                    services.amend(&meta.key, &meta.uid, |it| it.meta.deleting = true);
                }
                info!(
                    child = "Service",
                    name = meta.key.name(),
                    "deleted, not asked for"
                );
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        self.children
            .reservations
            .release(ChildKind::Service, &meta.key, &resource.uid);
        Ok(is_held)
    }
}
