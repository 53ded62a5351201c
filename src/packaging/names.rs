//! Names, paths and figures that more than one manifest holds, and the manager with them.
//! Constants only.

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
/// Port of that Service, and of the pods behind it: the scaffold's.
pub const METRICS_PORT: u16 = 8443;
/// Name of that Service's port, and of the container's.
pub const METRICS_PORT_NAME: &str = "https";
/// Where the metrics are served, and the nonResourceURL that RBAC grants.
pub const METRICS_PATH: &str = "/metrics";
/// Health endpoint, below `/`, that answers while the process does.
pub const HEALTHZ: &str = "healthz";
/// Health endpoint, below `/`, that answers 200 while calls may be sent to this replica.
pub const READYZ: &str = "readyz";
/// The manager's Deployment. No dots: OLM would make a Service of another name than it tells
/// the API server.
pub const DEPLOYMENT: &str = "quartet-operator-controller-manager";
/// Its container.
pub const CONTAINER: &str = "manager";
/// Seconds that the kubelet waits for the manager to stop: Kubernetes' own default. A stop takes up
/// to 9.5 s, so that the scaffold's 10 s leave no room for a slow node or a `preStop`. A test of the
/// stop holds the sum of its phases against this.
pub const TERMINATION_GRACE_SECONDS: u64 = 30;
