//! What an API server sends to a webhook, in the size that it has in life, and whether it got what it asked
//! for.

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::Result;

const SPOKE: &str = "cache.example.com/v1alpha1";

/// What is sent, again and again.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) path: &'static str,
    pub(super) body: Bytes,
    /// Of a conversion.
    objects: Option<usize>,
}

impl Call {
    /// The creation of a Memcached, some 2 KB.
    pub(super) fn create() -> Result<Self> {
        let mut object = memcached()?;
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        admission("CREATE", object, Value::Null)
    }

    /// An update that changes the spec, some 4 KB.
    pub(super) fn update() -> Result<Self> {
        let mut object = memcached()?;
        object["spec"]["replicas"] = json!(5);
        admission("UPDATE", object, memcached()?)
    }

    /// The conversion of so many objects to the spoke version, as all clients of it cause: 1.1 KB each.
    pub(super) fn convert(objects: u32) -> Result<Self> {
        let mut review: Value = serde_saphyr::from_str(include_str!("conversion.yaml"))?;
        let mut object = memcached()?;
        let numbered = (0..objects).map(|number| {
            let metadata = &mut object["metadata"];
            metadata["name"] = json!(format!("r{number:06}"));
            metadata["uid"] = json!(format!("6f1b8e1c-0f4e-4b39-9a53-{number:012x}"));
            object.clone()
        });
        review["request"]["objects"] = numbered.collect();
        Ok(Self {
            path: "/convert",
            body: review.to_string().into(),
            objects: Some(objects as usize),
        })
    }

    /// Whether `response` grants what was asked for: a review that allows it, or one with as many objects
    /// of the other version.
    pub(super) fn is_granted(&self, response: &[u8]) -> bool {
        let review: Value = serde_json::from_slice(response).unwrap_or_default();
        let response = &review["response"];
        let Some(objects) = self.objects else {
            return response["allowed"] == true;
        };
        let converted = response["convertedObjects"].as_array();
        let is_converted = |all: &Vec<Value>| {
            all.len() == objects && all.iter().all(|object| object["apiVersion"] == SPOKE)
        };
        response["result"]["status"] == "Success" && converted.is_some_and(is_converted)
    }
}

fn admission(operation: &str, object: Value, old: Value) -> Result<Call> {
    let mut review: Value = serde_saphyr::from_str(include_str!("admission.yaml"))?;
    let request = &mut review["request"];
    request["operation"] = json!(operation);
    request["object"] = object;
    request["oldObject"] = old;
    Ok(Call {
        path: "/validate-cache-example-com-v1-memcached",
        body: review.to_string().into(),
        objects: None,
    })
}

fn memcached() -> Result<Value> {
    Ok(serde_saphyr::from_str(include_str!("memcached.yaml"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_size_that_is_said() {
        let size = |call: Result<Call>| call.unwrap().body.len();
        assert!((1500..2500).contains(&size(Call::create())));
        assert!((3000..4500).contains(&size(Call::update())));
        let each = (size(Call::convert(101)) - size(Call::convert(1))) / 100;
        assert!((1000..1300).contains(&each), "{each}");
    }

    #[test]
    fn a_rejection_is_not_taken_for_a_grant() {
        let create = Call::create().unwrap();
        assert!(create.is_granted(br#"{"response": {"allowed": true}}"#));
        assert!(!create.is_granted(br#"{"response": {"allowed": false}}"#));
        assert!(!create.is_granted(b""));
        let none = br#"{"response": {"result": {"status": "Success"}, "convertedObjects": []}}"#;
        assert!(Call::convert(0).unwrap().is_granted(none));
        assert!(!Call::convert(1).unwrap().is_granted(none));
    }
}
