//! Bounds of the shared vocabulary. Constants only.
//!
//! Together they keep everything that the seed versions cannot say under 32 KiB of
//! conversion data; a test of `conversion` adds them up.

use serde_json::{Map, Value};

use crate::api::shape::{
    Field, INT32_MAX, INT64_MAX, LABEL, LABEL_MAX, Merge, NAME, NAME_MAX, PORT, QUALIFIED_NAME_MAX,
    Rule, Shape, VISIBLE,
};

/// Longest reference to an image.
pub const IMAGE_MAX: u16 = 512;

/// A reference to an image.
pub(in crate::api) const IMAGE: Shape = Shape::Text {
    min: 1,
    max: IMAGE_MAX,
    characters: VISIBLE,
};

/// `image` where the operator has one of its own.
pub(in crate::api) const OPTIONAL_IMAGE: &[Field] = &[Field::optional("image", IMAGE)];

/// The fields of [`Workload`](super::Workload) but for `image`.
pub(in crate::api) const FIELDS: &[Field] = &[
    Field::optional(
        "imagePullPolicy",
        Shape::Choice(&["Always", "IfNotPresent", "Never"]),
    ),
    Field::optional(
        "imagePullSecrets",
        Shape::List {
            items: &Shape::object(&[&[Field::required("name", name_of_at_least(1))]]),
            max: 8,
            merge: Merge::Map(&["name"]),
        },
    ),
    Field::optional(
        "resources",
        Shape::object(&[&[
            Field::optional("requests", QUANTITIES),
            Field::optional("limits", QUANTITIES),
        ]]),
    ),
    Field::optional("scheduling", Shape::object(&[SCHEDULING])),
    Field::optional("podSecurity", Shape::Choice(&["Restricted", "Baseline"])),
];

/// `service` of Nginx and HelloWorld: [`ServiceSpec`](super::ServiceSpec).
pub(in crate::api) const SERVICE: Shape = Shape::Object {
    fields: &[&[
        Field::optional(
            "type",
            Shape::Choice(&["ClusterIP", "NodePort", "LoadBalancer"]),
        ),
        Field::optional("port", PORT),
        Field::optional("nodePort", PORT),
    ]],
    rules: &[Rule {
        cel: "!has(self.nodePort) || (has(self.type) && self.type != 'ClusterIP')",
        kept: node_port_has_its_type,
        field: "nodePort",
        message: "may only be set when type is NodePort or LoadBalancer",
    }],
};

fn node_port_has_its_type(service: &Map<String, Value>) -> bool {
    let set = |field| service.get(field).filter(|value| !value.is_null());
    set("nodePort").is_none() || set("type").is_some_and(|kind| kind != "ClusterIP")
}

const QUANTITIES: Shape = Shape::Map {
    max: 8,
    key_max: QUALIFIED_NAME_MAX,
    key_characters: LABEL,
    values: &Shape::Quantity,
};

const SCHEDULING: &[Field] = &[
    Field::optional(
        "nodeSelector",
        Shape::Map {
            max: 16,
            key_max: QUALIFIED_NAME_MAX,
            key_characters: LABEL,
            values: &Shape::Text {
                min: 0,
                max: LABEL_MAX,
                characters: LABEL,
            },
        },
    ),
    Field::optional(
        "tolerations",
        Shape::List {
            items: &Shape::object(&[TOLERATION]),
            max: 16,
            merge: Merge::Atomic,
        },
    ),
    Field::optional(
        "topologySpreadConstraints",
        Shape::List {
            items: &Shape::object(&[TOPOLOGY_SPREAD_CONSTRAINT]),
            max: 8,
            merge: Merge::Map(&["topologyKey", "whenUnsatisfiable"]),
        },
    ),
    Field::optional("priorityClassName", name_of_at_least(0)),
];

const TOLERATION: &[Field] = &[
    Field::optional(
        "key",
        Shape::Text {
            min: 0,
            max: QUALIFIED_NAME_MAX,
            characters: LABEL,
        },
    ),
    Field::optional("operator", Shape::Choice(&["Equal", "Exists"])),
    Field::optional(
        "value",
        Shape::Text {
            min: 0,
            max: LABEL_MAX,
            characters: LABEL,
        },
    ),
    Field::optional(
        "effect",
        Shape::Choice(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ),
    Field::optional(
        "tolerationSeconds",
        Shape::Integer {
            min: -INT64_MAX,
            max: INT64_MAX,
        },
    ),
];

const TOPOLOGY_SPREAD_CONSTRAINT: &[Field] = &[
    Field::required(
        "maxSkew",
        Shape::Integer {
            min: 1,
            max: INT32_MAX,
        },
    ),
    Field::required(
        "topologyKey",
        Shape::Text {
            min: 1,
            max: QUALIFIED_NAME_MAX,
            characters: LABEL,
        },
    ),
    Field::required(
        "whenUnsatisfiable",
        Shape::Choice(&["DoNotSchedule", "ScheduleAnyway"]),
    ),
];

/// A name of an object, or with 0 the empty string, which is as good as absent.
const fn name_of_at_least(min: u16) -> Shape {
    Shape::Text {
        min,
        max: NAME_MAX,
        characters: NAME,
    }
}
