//! Reviews as an API server sends them, and invalid ones.

use std::collections::HashMap;

use arbitrary::{Result, Unstructured};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json;
use crate::resources::{self, Sample};

/// API version and kind of the two reviews.
pub const ADMISSION: [&str; 2] = ["admission.k8s.io/v1", "AdmissionReview"];
pub const CONVERSION: [&str; 2] = ["apiextensions.k8s.io/v1", "ConversionReview"];

type Members = HashMap<String, Box<RawValue>>;

/// Returns the UID that a response to this review must have; none if the body is not a review. A UID has 1 to
/// 256 bytes.
pub fn uid_in(body: &[u8], form: [&str; 2]) -> Option<String> {
    let review: Members = serde_json::from_str(std::str::from_utf8(body).ok()?).ok()?;
    let text = |members: &Members, name: &str| -> Option<String> {
        serde_json::from_str(members.get(name)?.get()).ok()
    };
    let is_review =
        ["apiVersion", "kind"].map(|name| text(&review, name).unwrap_or_default()) == form;
    let request: Members = serde_json::from_str(review.get("request")?.get()).ok()?;
    let uid = text(&request, "uid")?;
    (is_review && (1..=256).contains(&uid.len())).then_some(uid)
}

/// An AdmissionReview, and its resource.
pub fn admission(bytes: &mut Unstructured<'_>) -> Result<(Value, Sample)> {
    let operation = *bytes.choose(&["CREATE", "UPDATE", "UPDATE", "DELETE", "CONNECT", "PATCH"])?;
    let subresource = *bytes.choose(&["", "", "", "", "scale", "status", "log"])?;
    let mut sample = resources::sample(bytes)?;
    let old = match bytes.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => sample.object.clone(),
        2 => resources::sample(bytes)?.object,
        3 => json::any(bytes)?,
        _ => {
            let mut old = sample.object.clone();
            resources::edit(bytes, (sample.kind, sample.version), &mut old)?;
            old
        }
    };
    let mut request = json!({
        "uid": "u-1", "operation": operation, "object": sample.object, "oldObject": old,
        "kind": {"group": sample.kind.group, "version": sample.version.name, "kind": sample.kind.kind},
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    });
    if subresource == "scale" {
        request["object"] = scale(bytes)?;
        request["oldObject"] = scale(bytes)?;
        sample.object = request["object"].clone();
    }
    if !subresource.is_empty() {
        request["subResource"] = json!(subresource);
    }
    if bytes.ratio(1, 4)? {
        request["name"] = json!("x");
    }
    if bytes.ratio(1, 16)? {
        let field = *bytes.choose(&["uid", "operation", "object", "oldObject", "name"])?;
        request[field] = json::any(bytes)?;
    }
    Ok((review(ADMISSION, request), sample))
}

fn scale(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let replicas = match bytes.ratio(1, 8)? {
        true => json::any(bytes)?,
        false => json::integer(bytes)?,
    };
    Ok(json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "x", "namespace": "n"}, "spec": {"replicas": replicas},
    }))
}

/// A ConversionReview.
pub fn conversion(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let first = resources::sample(bytes)?;
    let version = match bytes.int_in_range(0..=7)? {
        0..=4 => first.other_version().name,
        5 | 6 => first.version.name,
        _ => "v3",
    };
    let desired = format!("{}/{version}", first.kind.group);
    let mut objects = vec![first.object];
    for _ in 0..bytes.int_in_range(0..=3)? {
        let mut more = resources::sample(bytes)?;
        match bytes.int_in_range(0..=15)? {
            0 => more.object = json::any(bytes)?,
            1 => {}
            // Of the same kind, as in every review of a real API server.
            _ => {
                let versioned = [&first.kind.spoke, &first.kind.hub];
                let version = *bytes.choose(&versioned)?;
                more.object["apiVersion"] = json!(first.kind.api_version(version));
                more.object["kind"] = json!(first.kind.kind);
            }
        }
        objects.push(more.object);
    }
    let mut request = json!({"uid": "u-2", "desiredAPIVersion": desired, "objects": objects});
    if bytes.ratio(1, 16)? {
        let field = *bytes.choose(&["uid", "desiredAPIVersion", "objects"])?;
        request[field] = json::any(bytes)?;
    }
    Ok(review(CONVERSION, request))
}

fn review([api_version, kind]: [&str; 2], request: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "request": request})
}
