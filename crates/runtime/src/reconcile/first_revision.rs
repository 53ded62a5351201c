//! The revision of etcd since which no other manager writes. Read once in a process, after its election.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::sync::OnceCell;
use tracing::debug;

use crate::object::version_of;
use quartet_http::{Caller, RequestError};
use quartet_workload::ChildKind;

/// Shared by the controllers of all kinds: the versions of all objects are revisions of etcd.
pub(crate) struct FirstRevision {
    caller: Caller,
    kind: ChildKind,
    namespace: String,
    begun: AtomicBool,
    revision: OnceCell<u64>,
}

impl FirstRevision {
    /// Not read yet. Children of the type `kind` in `namespace` can be listed.
    pub(crate) fn new(caller: Caller, kind: ChildKind, namespace: &str) -> Self {
        FirstRevision {
            caller,
            kind,
            namespace: namespace.to_owned(),
            begun: AtomicBool::new(false),
            revision: OnceCell::new(),
        }
    }

    /// Reads the revision in the first call; after an error, [`FirstRevision::get`] reads it.
    pub(crate) async fn read_once(&self) {
        if !self.begun.swap(true, Ordering::Relaxed)
            && let Err(error) = self.get().await
        {
            debug!(%error, "the revision is not known yet");
        }
    }

    /// The revision, which is read if it is not known. Only for a process that leads.
    ///
    /// # Errors
    /// That of the read; the next call reads again.
    pub(crate) async fn get(&self) -> Result<u64, RequestError> {
        let revision = self.revision.get_or_try_init(|| async {
            // Lists a type without conversion: a list of resources fails while the conversion webhook
            // is unavailable, even if it is empty. No object has this name.
            let at = self.kind.location(&self.namespace, "-");
            let list = self.caller.list_one(at).await?;
            Ok(revision_of(&list))
        });
        revision.await.copied()
    }
}

/// The revision of a list. If it has none, no object counts as newer.
fn revision_of(list: &Value) -> u64 {
    version_of(list).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use quartet_workload::DEPLOYMENT;
    use serde_json::json;

    use super::*;

    impl FirstRevision {
        /// As if it had been read.
        pub(in crate::reconcile) fn known(caller: Caller, revision: u64) -> Self {
            FirstRevision {
                revision: OnceCell::new_with(Some(revision)),
                ..FirstRevision::new(caller, DEPLOYMENT, "")
            }
        }
    }

    #[test]
    fn every_resource_is_asked_for_if_the_api_server_names_no_revision() {
        for list in [json!({}), json!({"metadata": {"resourceVersion": ""}})] {
            assert_eq!(revision_of(&list), u64::MAX);
        }
        let list = json!({"metadata": {"resourceVersion": "7"}});
        assert_eq!(revision_of(&list), 7);
    }
}
