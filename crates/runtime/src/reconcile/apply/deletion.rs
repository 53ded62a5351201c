//! Deletes children that the spec no longer wants.

use std::sync::Arc;

use tracing::info;

use super::error::{ApplyError, pending_deletion};
use crate::cache::cached::{CachedChild, Meta};
use crate::children::terminating;
use crate::reconcile::reconciler::Reconciler;
use quartet_workload::{Child, ChildKind, Resource};

impl Reconciler {
    /// The children of the resource that are not among the desired `children`, of the optional types of its
    /// operator.
    fn unwanted(
        &self,
        resource: &Resource,
        children: &[Child],
    ) -> Vec<(ChildKind, Arc<CachedChild>)> {
        let is_wanted = |kind: ChildKind, name: &str| {
            let mut children = children.iter();
            children.any(|child| child.kind == kind && child.name == name)
        };
        let optional = self.operator.owns().iter().filter(|owned| owned.optional);
        let stores = optional.filter_map(|it| Some((it.kind, self.children.store(it.kind)?)));
        let found = stores.flat_map(|(kind, store)| {
            let children = store.indexed(&resource.namespace, &resource.uid);
            children.into_iter().map(move |child| (kind, child))
        });
        let is_unwanted = |(kind, child): &(ChildKind, Arc<CachedChild>)| {
            let is_retained = child.owner.as_ref().is_some_and(|owner| owner.retained);
            !is_retained && !is_wanted(kind, child.meta.key.name())
        };
        found.filter(is_unwanted).collect()
    }

    /// Deletes the children of the resource that are not among the desired `children`, of the optional
    /// types of its operator.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] if the resource has changed since it was read,
    /// [`ApplyError::Pending`] while a finalizer holds a child.
    pub(super) async fn delete_unwanted(
        &self,
        resource: &Resource,
        children: &[Child],
    ) -> Result<(), ApplyError> {
        for (kind, found) in self.unwanted(resource, children) {
            let (meta, key) = (&found.meta, &found.meta.key);
            if !meta.deleting && !self.delete(resource, kind, meta).await? {
                continue;
            }
            // A finalizer holds it.
            let left = self.children.store(kind).and_then(|store| store.get(key));
            if left.is_some_and(|it| it.meta.uid == meta.uid && it.meta.deleting) {
                return Err(pending_deletion(terminating(kind, key)));
            }
        }
        Ok(())
    }

    /// Deletes an owned child that the spec no longer wants. No other function deletes. Returns whether
    /// a finalizer holds the child.
    ///
    /// # Errors
    /// Those of [`Reconciler::check_current`]: a child that is deleted for an old generation cannot be
    /// restored, since a Service loses its IP.
    async fn delete(
        &self,
        resource: &Resource,
        kind: ChildKind,
        meta: &Meta,
    ) -> Result<bool, ApplyError> {
        self.check_current(resource).await?;
        let mut is_held = false;
        let at = kind.location(meta.key.namespace(), meta.key.name());
        match self
            .caller
            .delete(at, &meta.uid, meta.resource_version)
            .await
        {
            Ok(answer) => {
                is_held = answer.pointer("/metadata/deletionTimestamp").is_some();
                // No event would remove one that the watch does not select.
                if is_held && meta.is_selected {
                    self.children.put_written(kind, &answer);
                } else if let Some(store) = self.children.store(kind) {
                    // Until the watch reports the deletion, it counts as terminating.
                    store.amend(&meta.key, &meta.uid, |it| it.meta.deleting = true);
                }
                info!(
                    child = kind.kind,
                    child_name = meta.key.name(),
                    "deleted; the spec no longer wants it"
                );
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(is_held)
    }
}
