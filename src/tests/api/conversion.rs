//! Tests of conversion: its laws for any object, single conversions by example, and the limits of
//! its data.

mod examples;
pub(crate) mod generators;
mod laws;
mod limits;
mod raw;

use serde_json::{Value, json};

use quartet_versions::conversion::convert;
use quartet_versions::{Kind, Version};

/// An object without a status.
fn of(kind: &Kind, version: &Version, metadata: Value, spec: Value) -> Value {
    object(kind, version, metadata, Some(spec), json!({}))
}

fn object(
    kind: &Kind,
    version: &Version,
    metadata: Value,
    spec: Option<Value>,
    status: Value,
) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(version),
        "kind": kind.kind,
        "metadata": metadata,
        "status": status,
    });
    if let Some(spec) = spec {
        object["spec"] = spec;
    }
    object
}

fn converted(kind: &Kind, object: &Value, to: &Version) -> Value {
    let converted = convert(kind, object.clone(), to).unwrap();
    assert!(!converted.data_left_out);
    converted.object
}
