//! Admission: what a write may contain beyond the schema, which the API server has checked before. Errors have
//! the form of apimachinery. One endpoint per kind and version; contains no rules of a kind. Always allowed:
//! deletions, status updates, and updates that leave what is wrong.

mod object;
mod write;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde_json::{Value, json};

use super::answer::Answer;
use super::metrics::Labels;
use object::Object;
use quartet_http::bounded::{self, MOST_QUOTED, shortened};
use quartet_versions::raw::Members;
use quartet_versions::replicas::{NotAllowed, within_limit};
use quartet_versions::validation::FieldError;
use quartet_versions::{Kind, Version};
use write::{Resource, Write};

/// apiVersion and kind of the reviews.
pub(super) const REVIEW: [&str; 2] = ["admission.k8s.io/v1", "AdmissionReview"];

/// The endpoint of one kind and version.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) kind: &'static Kind,
    pub(super) version: &'static Version,
    /// Maximum number of pods per resource; 0 means no limit.
    pub(super) max_replicas: u32,
}

/// Why a request is rejected.
struct Rejected {
    /// One word, for metrics.
    reason: &'static str,
    /// A `metav1.Status`.
    status: Value,
}

impl Rejected {
    /// The object does not match its review.
    fn malformed(message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self {
            reason: "malformed",
            status: json!({
                "status": "Failure", "code": 400, "reason": "BadRequest", "message": message,
            }),
        }
    }
}

impl Admission {
    /// The answer to the request with this uid.
    pub(super) fn answer(
        &self,
        uid: &str,
        request: &Members<'_>,
        decisions: &Family<Labels<4>, Counter>,
    ) -> Answer {
        let operation = request.text("operation").unwrap_or_default();
        let mut known = ["CREATE", "UPDATE", "DELETE", "CONNECT"].into_iter();
        let operation = known.find(|known| *known == operation);
        let operation = operation.unwrap_or("unknown");
        let (reason, response) = match self.decide(operation, request) {
            Ok(reason) => (reason, json!({"uid": uid, "allowed": true})),
            Err(Rejected { reason, status }) => (
                reason,
                json!({"uid": uid, "allowed": false, "status": status}),
            ),
        };
        let labels = [
            ("kind", self.kind.kind),
            ("version", self.version.name),
            ("operation", operation),
            ("reason", reason),
        ];
        decisions.get_or_create(&labels).inc();
        Answer::review(REVIEW, &response)
    }

    /// Why the request is allowed, in one word for metrics.
    fn decide(&self, operation: &str, request: &Members<'_>) -> Result<&'static str, Rejected> {
        let is_update = match operation {
            "CREATE" => false,
            "UPDATE" => true,
            "DELETE" | "CONNECT" => return Ok("not_checked"),
            _ => return Err(Rejected::malformed("request.operation is unknown")),
        };
        let subresource = request.text("subResource").unwrap_or_default();
        if !matches!(&*subresource, "" | "scale") {
            return Ok("not_checked");
        }
        let new = Object::read(request, "object")?;
        let old = is_update.then(|| Object::read(request, "oldObject"));
        let old = old.transpose()?;
        let name = new.name().or(request.text("name")).unwrap_or_default();
        if subresource == "scale" {
            self.check_scale(&name, &new, old.as_ref())?;
            return Ok("valid");
        }
        if !new.is_a(self.kind, self.version) {
            return Err(Rejected::malformed(format!(
                "this endpoint checks objects of apiVersion {} and kind {} only",
                self.kind.api_version(self.version),
                self.kind.kind
            )));
        }
        // The removal of finalizers must succeed, whatever the spec.
        if is_update && new.is_being_deleted() {
            return Ok("deletion");
        }
        let write = Write {
            admission: self,
            new: Resource::read(self, new)?,
            // An old spec that cannot be read is not compared.
            old: old.and_then(|old| Resource::read(self, old).ok()),
        };
        match write.error(&name) {
            Some(error) => Err(invalid([self.kind.group, self.kind.kind, &name], error)),
            None => Ok("valid"),
        }
    }

    /// Checks an `autoscaling/v1` Scale, written by `kubectl scale` and autoscalers.
    fn check_scale(
        &self,
        name: &str,
        new: &Object<'_>,
        old: Option<&Object<'_>>,
    ) -> Result<(), Rejected> {
        // Go omits zero values.
        let replicas = |object: &Object<'_>| match object.spec()?.get("replicas") {
            None | Some(Value::Null) => Ok(0),
            Some(replicas) => replicas
                .as_i64()
                .ok_or_else(|| Rejected::malformed("spec.replicas of the Scale is not an integer")),
        };
        let (wanted, stored) = (replicas(new)?, old.map(replicas).transpose()?);
        let Some((reason, detail)) = self.not_allowed(wanted, stored) else {
            return Ok(());
        };
        let error = FieldError::invalid("spec.replicas", Some(&wanted.into()), &detail);
        Err(invalid(["autoscaling", "Scale", name], (reason, error)))
    }

    /// Why this number of pods is rejected: one word for metrics, and the message. Scaling down is always
    /// allowed, and a number that does not change.
    fn not_allowed(&self, wanted: i64, stored: Option<i64>) -> Option<(&'static str, String)> {
        let is_no_more = |stored| wanted == stored || (0..stored).contains(&wanted);
        if stored.is_some_and(is_no_more) {
            return None;
        }
        let not_allowed = within_limit(wanted, self.max_replicas).err()?;
        let reason = match not_allowed {
            NotAllowed::Negative => "invalid",
            NotAllowed::OverLimit { .. } => "replicas_over_limit",
        };
        Some((reason, not_allowed.to_string()))
    }
}

/// The rejection of the object of this group, kind and name, as apimachinery's `errors.NewInvalid`. A name
/// that has not been generated yet is empty.
fn invalid(
    [group, kind, name]: [&str; 3],
    (reason, error): (&'static str, FieldError),
) -> Rejected {
    let quoted = bounded::beginning_of(&format_args!("{name:?}"), MOST_QUOTED);
    let message = format!("{kind}.{group} {quoted} is invalid: {error}");
    let cause = json!({
        "reason": error.reason, "message": error.message, "field": shortened(&error.field),
    });
    let details = json!({"group": group, "kind": kind, "name": shortened(name), "causes": [cause]});
    let status = json!({
        "status": "Failure", "code": 422, "reason": "Invalid", "message": message,
        "details": details,
    });
    Rejected { reason, status }
}
