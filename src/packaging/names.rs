//! Names that more than one manifest holds. Constants only.

/// Where the manager is installed unless told otherwise.
pub const NAMESPACE: &str = "quartet-operator-system";
/// The Lease of the leader election, in the manager's namespace.
pub const LEASE: &str = "quartet-operator.example.com";
/// The Service in front of the webhook server; the name that OLM gives it, the
/// Deployment's plus `-service`, so that every way of installing has the same.
pub const WEBHOOK_SERVICE: &str = "quartet-operator-controller-manager-service";
/// Port of that Service.
pub const WEBHOOK_SERVICE_PORT: i32 = 443;
/// Name of the container's port that it leads to.
pub const WEBHOOK_PORT_NAME: &str = "webhook-server";
/// The configuration that has the API server ask our webhooks.
pub const WEBHOOK_CONFIGURATION: &str = "quartet-operator-validating-webhook-configuration";
/// The ServiceAccount that the manager runs as.
pub const SERVICE_ACCOUNT: &str = "quartet-operator-controller-manager";
/// `app.kubernetes.io/name` and the prefix of what is installed.
pub const PROJECT: &str = "quartet-operator";
/// The Service in front of the metrics, and with it the label `job` of every series.
pub const METRICS_SERVICE: &str = "quartet-operator-controller-manager-metrics-service";
/// The account of whoever reads the metrics, and the ClusterRole that allows it.
pub const METRICS_READER: &str = "quartet-operator-metrics-reader";
/// The Secret with the token that Prometheus shows when it scrapes.
pub const METRICS_READER_TOKEN: &str = "quartet-operator-metrics-reader-token";
/// Where the project lives.
pub const REPOSITORY: &str = "https://github.com/quartet-operator/quartet-operator";
