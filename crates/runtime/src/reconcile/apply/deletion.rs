//! Deletes children that the spec no longer wants.

use std::sync::Arc;

use serde_json::Value;
use tracing::info;

use super::error::{ApplyError, Blocker};
use crate::cache::cached::CachedChild;
use crate::children::terminating;
use crate::reconcile::Reconciler;
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
        let stores =
            optional.filter_map(|it| Some((it.kind, self.context.children.store(it.kind)?)));
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
    /// types of its operator. No other function deletes.
    ///
    /// # Errors
    /// Those of [`Reconciler::check_current`]: a child that is deleted for an old generation cannot be
    /// restored, since a Service loses its IP. [`ApplyError::Blocked`] while a finalizer holds a child.
    pub(super) async fn delete_unwanted(
        &self,
        resource: &Resource,
        children: &[Child],
    ) -> Result<(), ApplyError> {
        for (kind, found) in self.unwanted(resource, children) {
            let (meta, key) = (&found.meta, &found.meta.key);
            let mut is_held = meta.deleting;
            if !is_held {
                self.check_current(resource).await?;
                let at = kind.location(key.namespace(), key.name());
                let caller = &self.context.caller;
                let deleted = caller.delete(at, &meta.uid, meta.resource_version);
                let left: Option<Value> = quartet_http::found(deleted.await)?;
                is_held =
                    left.is_some_and(|it| it.pointer("/metadata/deletionTimestamp").is_some());
                // Ahead of the watch event: it does not exist any more.
                if !is_held && let Some(store) = self.context.children.store(kind) {
                    store.deleted(key, meta.resource_version);
                }
                let (kind, name) = (kind.kind, key.name());
                info!(
                    child = kind,
                    child_name = name,
                    "deleted; the spec no longer wants it"
                );
            }
            if is_held {
                return Err(Blocker::deletion(terminating(kind, key)).into());
            }
        }
        Ok(())
    }
}
