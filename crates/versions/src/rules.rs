//! Rules that a type cannot express: in CEL for the API server, and in Rust for the manager. A test
//! compares both on random values.

use serde_json::{Map, Value};

/// CEL: only some types of Service have a node port.
pub const NODE_PORT_HAS_ITS_TYPE: &str =
    "!has(self.nodePort) || (has(self.type) && self.type != 'ClusterIP')";

/// The error message of [`NODE_PORT_HAS_ITS_TYPE`].
pub const NODE_PORT_MESSAGE: &str = "may only be set when type is NodePort or LoadBalancer";

/// [`NODE_PORT_HAS_ITS_TYPE`] in Rust.
pub(super) fn node_port_has_its_type(service: &Map<String, Value>) -> bool {
    let set = |field| service.get(field).filter(|value| !value.is_null());
    set("nodePort").is_none() || set("type").is_some_and(|kind| kind != "ClusterIP")
}

/// CEL: the keys of a map are qualified names.
pub const KEYS_ARE_NAMES: &str =
    r"self.all(key, size(key) <= 317 && key.matches(r'^[A-Za-z0-9\-./_]*$'))";

/// The error message of [`KEYS_ARE_NAMES`].
pub const KEYS_MESSAGE: &str =
    r"keys may not be more than 317 characters, and must match ^[A-Za-z0-9\-./_]*$";
