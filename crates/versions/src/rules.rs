//! Rules that a type cannot express, in CEL for the API server.

use serde::Serialize;

/// CEL: only some types of Service have a node port.
pub const NODE_PORT_HAS_ITS_TYPE: &str =
    "!has(self.nodePort) || (has(self.type) && self.type != 'ClusterIP')";

/// The error message of [`NODE_PORT_HAS_ITS_TYPE`].
pub const NODE_PORT_MESSAGE: &str = "may only be set when type is NodePort or LoadBalancer";

/// CEL: the keys of a map are those of labels.
pub const KEYS_ARE_NAMES: &str =
    "self.all(key, size(key) <= 317 && !format.qualifiedName().validate(key).hasValue())";

/// The error message of [`KEYS_ARE_NAMES`].
pub const KEYS_MESSAGE: &str = "keys may not be more than 317 characters, and must be qualified names such as example.com/name";

/// A rule in CEL that the API server has for a Deployment. With it in the schema, the error names the field of
/// the resource.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    rule: &'static str,
    /// The field that the error names, if not that with the rule.
    #[serde(skip_serializing_if = "str::is_empty")]
    field_path: &'static str,
    /// The error message.
    pub message: &'static str,
}

/// Rules of the requests and limits of a container.
pub const RESOURCES: [Rule; 2] = [
    Rule {
        rule: "!has(self.requests) || !has(self.limits) || self.requests.all(name, \
               !(name in self.limits) || quantity(string(self.requests[name]))\
               .compareTo(quantity(string(self.limits[name]))) <= 0)",
        field_path: ".requests",
        message: "a request may not be more than its limit",
    },
    Rule {
        rule: "!has(self.requests) || self.requests.all(name, \
               name in ['cpu', 'memory', 'ephemeral-storage'] || \
               (has(self.limits) && name in self.limits && quantity(string(self.requests[name]))\
               .compareTo(quantity(string(self.limits[name]))) == 0))",
        field_path: ".requests",
        message: "a request of hugepages or of a resource with a domain must be equal to its limit",
    },
];

/// Rules of requests, and of limits.
pub const QUANTITIES: [Rule; 2] = [
    Rule {
        rule: "self.all(key, !key.startsWith('requests.') && \
               key.matches('^(cpu|memory|ephemeral-storage|hugepages-.*|.*/.*)$'))",
        field_path: "",
        message: "keys must be cpu, memory, ephemeral-storage, hugepages-<size>, or have a domain, \
                  such as example.com/gpu",
    },
    Rule {
        rule: "self.all(key, key in ['cpu', 'memory', 'ephemeral-storage'] || \
               (quantity(string(self[key])).isInteger() && (!key.startsWith('hugepages-') || \
               quantity(string(self[key])).asInteger() % quantity(key.substring(10)).asInteger() == 0)))",
        field_path: "",
        message: "the quantity of a resource with a domain must be a whole number, and that of hugepages \
                  a multiple of their size",
    },
];

/// Rules of a toleration.
pub const TOLERATION: [Rule; 3] = [
    Rule {
        rule: "(has(self.key) && self.key != '') || \
               (has(self.operator) && self.operator == 'Exists')",
        field_path: ".operator",
        message: "must be Exists if there is no key",
    },
    Rule {
        rule: "!has(self.value) || self.value == '' || \
               !has(self.operator) || self.operator != 'Exists'",
        field_path: ".value",
        message: "must be empty if the operator is Exists",
    },
    Rule {
        rule: "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        field_path: ".effect",
        message: "must be NoExecute if tolerationSeconds is set",
    },
];
