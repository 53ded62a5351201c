//! Admission: what a write may contain beyond the schema, which the API server has checked before. Errors have
//! the form of apimachinery. One endpoint per kind and version; contains no rules of a kind. Always allowed:
//! deletions, status updates, and updates that leave what is wrong.

mod object;
mod write;

use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde_json::{Value, json};

use super::answer::Answer;
use super::metrics::Labels;
use super::review::Request;
use object::Object;
use quartet_http::bounded::{self, MOST_QUOTED, shortened};
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
    status: Box<Status>,
}

impl Rejected {
    /// The object does not match its review.
    fn malformed(message: impl AsRef<str>) -> Self {
        Self {
            reason: "malformed",
            status: failure(400, "BadRequest", message.as_ref()),
        }
    }
}

impl Admission {
    /// The answer to the request with this uid.
    pub(super) fn answer(
        &self,
        uid: &str,
        request: Request<'_>,
        decisions: &Family<Labels<4>, Counter>,
    ) -> Answer {
        let operation = request.operation.as_ref().map_or("", |text| &text.0);
        let mut known = ["CREATE", "UPDATE", "DELETE", "CONNECT"].into_iter();
        let operation = known.find(|known| *known == operation);
        let operation = operation.unwrap_or("unknown");
        let (reason, response) = match self.decide(operation, request) {
            Ok(reason) => (reason, json!({"uid": uid, "allowed": true})),
            Err(Rejected { reason, status }) => (reason, rejection(uid, &status)),
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
    fn decide(&self, operation: &str, request: Request<'_>) -> Result<&'static str, Rejected> {
        let is_update = match operation {
            "CREATE" => false,
            "UPDATE" => true,
            "DELETE" | "CONNECT" => return Ok("not_checked"),
            _ => return Err(Rejected::malformed("request.operation is unknown")),
        };
        let subresource = request.sub_resource.as_ref().map_or("", |text| &text.0);
        if !matches!(subresource, "" | "scale") {
            return Ok("not_checked");
        }
        let new = Object::read("request.object", request.object)?;
        let old = match is_update {
            true => Some(Object::read("request.oldObject", request.old_object)?),
            false => None,
        };
        if old.as_ref().is_some_and(|old| old.is_as(&new)) {
            return Ok("unchanged");
        }
        let name = new.name(request.name);
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
        write.check(&name)?;
        Ok("valid")
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
        let subject = ["autoscaling", "Scale", name];
        self.check_replicas(subject, wanted, stored, |detail| {
            FieldError::invalid("spec.replicas", wanted.into(), detail)
        })
    }

    /// Rejects fewer than 0 pods, and more than the limit and than before: scaling down is always allowed.
    fn check_replicas(
        &self,
        subject: [&str; 3],
        wanted: i64,
        stored: Option<i64>,
        error: impl FnOnce(String) -> FieldError,
    ) -> Result<(), Rejected> {
        let is_no_more = |stored| wanted == stored || (0..stored).contains(&wanted);
        let not_allowed = match within_limit(wanted, self.max_replicas) {
            Err(not_allowed) if !stored.is_some_and(is_no_more) => not_allowed,
            _ => return Ok(()),
        };
        let reason = match not_allowed {
            NotAllowed::Negative => "invalid",
            NotAllowed::OverLimit { .. } => "replicas_over_limit",
        };
        accept(subject, reason, [error(not_allowed.to_string())])
    }
}

/// Rejects the object of this group, kind and name if there are errors, as apimachinery's
/// `errors.NewInvalid`. `reason` is for metrics. A name that has not been generated yet is empty.
fn accept(
    [group, kind, name]: [&str; 3],
    reason: &'static str,
    errors: impl IntoIterator<Item = FieldError>,
) -> Result<(), Rejected> {
    let errors: Vec<FieldError> = errors.into_iter().collect();
    let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    let text = match texts.as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let causes = errors.into_iter().map(|error| StatusCause {
        reason: error.reason.as_str().to_owned(),
        message: error.body(),
        field: shortened(&error.field).into_owned(),
    });
    let details = StatusDetails {
        name: shortened(name).into_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        causes: causes.collect(),
        uid: String::new(),
        retry_after_seconds: 0,
    };
    let quoted = bounded::beginning_of(&format_args!("{name:?}"), MOST_QUOTED);
    let message = format!("{kind}.{group} {quoted} is invalid: {text}");
    let mut status = failure(422, "Invalid", &message);
    status.details = Some(details);
    Err(Rejected { reason, status })
}

fn failure(code: u16, reason: &str, message: &str) -> Box<Status> {
    Status::failure(message, reason).with_code(code).boxed()
}

fn rejection(uid: &str, status: &Status) -> Value {
    json!({"uid": uid, "allowed": false, "status": status})
}

/// The answer after a panic of a rule.
pub(super) fn panicked(uid: &str) -> Answer {
    let message = "internal error occurred while the object was checked";
    let status = failure(500, "InternalError", message);
    Answer::review(REVIEW, &rejection(uid, &status))
}
