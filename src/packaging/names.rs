//! Names that more than one manifest holds. Constants only.

/// Where the manager is installed unless told otherwise.
pub const NAMESPACE: &str = "quartet-operator-system";
/// The Service in front of the webhook server; the name that OLM gives it, the
/// Deployment's plus `-service`, so that every way of installing has the same.
pub const WEBHOOK_SERVICE: &str = "quartet-operator-controller-manager-service";
/// `app.kubernetes.io/name` and the prefix of what is installed.
pub const PROJECT: &str = "quartet-operator";
