//! Which version of a kind is to be watched: the one that is stored, since reading any other
//! depends on the conversion webhook. Discovery tells, which every client may ask.

use k8s_openapi::ByteString;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::api::{Kind, Version};

/// What discovery says of a resource whose objects are stored in `version`
/// (`storageVersionHash`; apiserver, `pkg/endpoints/discovery/storageversionhash.go`).
pub fn storage_version_hash(kind: &Kind, version: &Version) -> String {
    let stored = format!("{}/{}", kind.api_version(version), kind.kind);
    let digest = Sha256::digest(stored.as_bytes());
    let short: Vec<u8> = digest.iter().take(8).copied().collect();
    match serde_json::to_value(ByteString(short)) {
        Ok(Value::String(base64)) => base64,
        Ok(_) | Err(_) => String::new(),
    }
}
