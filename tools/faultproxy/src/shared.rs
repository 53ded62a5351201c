//! What all connections of a proxy use, and the error that ends one.

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use kube::Client;

use crate::gate::Network;
use crate::journal::Recorder;
use crate::rules::Rules;

/// The state that all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) upstream: Client,
    pub(crate) rules: Rules,
    pub(crate) recorder: Recorder,
    /// The user agent for the API server.
    pub(crate) user_agent: Arc<OnceLock<HeaderValue>>,
    pub(crate) network: Network,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The connection is reset: hyper drops it when a service fails.
#[derive(Debug, thiserror::Error)]
#[error("the connection is reset")]
pub(crate) struct Reset;
