//! Names, paths and numbers that several manifests and the manager use. Constants only.
//! Used by `application` and `packaging`.

/// Default namespace of the manager.
pub const NAMESPACE: &str = "quartet-operator-system";
/// The Lease of the leader election, in the manager's namespace.
pub const LEASE: &str = "quartet-operator.example.com";
/// The Service of the webhook server. OLM names it after the Deployment, with the suffix
/// `-service`; all other installations use the same name.
pub const WEBHOOK_SERVICE: &str = "quartet-operator-controller-manager-service";
/// Port of that Service.
pub const WEBHOOK_SERVICE_PORT: i32 = 443;
/// Name of the container port behind it.
pub const WEBHOOK_PORT_NAME: &str = "webhook-server";
/// The ValidatingWebhookConfiguration.
pub const WEBHOOK_CONFIGURATION: &str = "quartet-operator-validating-webhook-configuration";
/// `app.kubernetes.io/name`, and prefix of the names of all objects.
pub const PROJECT: &str = "quartet-operator";
/// The Service of the metrics, and the label `job` of every series.
pub const METRICS_SERVICE: &str = "quartet-operator-controller-manager-metrics-service";
/// Name of the Service port and of the container port.
pub const METRICS_PORT_NAME: &str = "https";
/// The manager's Deployment. Without dots: otherwise OLM would create a Service with another name
/// than it tells the API server.
pub const DEPLOYMENT: &str = "quartet-operator-controller-manager";
/// Grace period of the manager's pod, in seconds: the default of Kubernetes. A stop takes up to
/// 9 s, so the scaffold's 10 s are not enough for a slow node or a `preStop` hook. A test
/// compares the sum of the phases of the stop with this value.
pub const TERMINATION_GRACE_SECONDS: u64 = 30;
