//! What the manager has to know of the application. Constants only.

use quartet_versions::Brand;
use quartet_workload::{Legacy, Operator};

/// The operators, and the names of the application in the cluster and in logs, metrics and traces.
///
/// The name of the brand is the user agent of requests and `service.name` of traces. It begins the names of objects
/// and, with `_` for `-`, of metrics that only this application has. The Lease of the leader election has the domain
/// of the brand as its name.
#[derive(Debug)]
pub struct Application {
    /// Its version.
    pub version: &'static str,
    /// The first line of `--help`.
    pub about: &'static str,
    /// Every operator, whose kinds the webhooks serve.
    pub operators: &'static [&'static dyn Operator],
    /// The names by which its objects are told from those of others.
    pub brand: &'static Brand,
    /// What it takes over from older operators.
    pub legacy: Legacy,
}

impl Application {
    /// The namespace of the Secret below, if the manager runs in no pod: as in a kubebuilder scaffold.
    pub fn namespace(&self) -> String {
        self.named("system")
    }

    /// The Secret with the webhook certificates that the manager issues.
    pub fn webhook_secret(&self) -> String {
        self.named("webhook-server-cert")
    }

    /// The Service of the webhook server, as OLM names it.
    pub fn webhook_service(&self) -> String {
        self.named("controller-manager-service")
    }

    /// The ValidatingWebhookConfiguration.
    pub fn webhook_configuration(&self) -> String {
        self.named("validating-webhook-configuration")
    }

    /// The name of the application, `-` and `suffix`.
    pub(crate) fn named(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.brand.name)
    }

    /// Prefix of the names of metrics that only this application has.
    pub(crate) fn metrics_prefix(&self) -> String {
        self.brand.name.replace('-', "_")
    }
}
