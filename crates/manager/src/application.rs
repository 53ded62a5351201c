//! What the manager has to know of the application. Constants only.

use quartet_versions::Brand;
use quartet_workload::{Legacy, Operator};

/// The operators, and the names of the application in the cluster and in logs, metrics and traces.
#[derive(Debug)]
pub struct Application {
    /// The user agent of requests, `service.name` of traces, and prefix of field managers.
    pub name: &'static str,
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
    /// Prefix of the names of metrics that only this application has.
    pub metrics_prefix: &'static str,
    /// The namespace of the Secret with the webhook certificate, if the manager runs in no pod.
    pub namespace: &'static str,
    /// The name of that Secret.
    pub webhook_secret: &'static str,
    /// The manager of the fields of that Secret and of the caBundles.
    pub webhook_manager: &'static str,
    /// The Service of the webhook server.
    pub webhook_service: &'static str,
    /// The ValidatingWebhookConfiguration.
    pub webhook_configuration: &'static str,
    /// The Lease of the leader election.
    pub lease: &'static str,
    /// The annotation of the Lease with the flags of its holder.
    pub lease_flags: &'static str,
}
