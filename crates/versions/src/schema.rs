//! The schema of a version. schemars and kube derive it from the Rust types; this module brings
//! it into the form of controller-gen where the derived one differs. Also defines the
//! schemas of maps and enums that attributes of fields use.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceSubresourceScale, JSON,
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::kind::{Kind, Version};
use super::limits::{self, INT64_MAX, LABEL, LABEL_MAX};
use super::replicas::{Path, Pods};
use super::rules::{KEYS_ARE_NAMES, KEYS_MESSAGE, QUANTITIES, Rule};
use super::validation::SERVICE_NAME_MESSAGE;

/// Path of the status of the condition `Available`.
const AVAILABLE_PATH: &str = ".status.conditions[?(@.type==\"Available\")].status";
/// Placeholder format of a quantity, which [`normalize`] replaces.
const QUANTITY: &str = "quantity";

/// A string enum of the names of a fieldless Rust enum. kube's derive would lose the description
/// of an optional one.
pub fn choice_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let schema = T::json_schema(generator);
    let variants = schema.get("oneOf").and_then(Value::as_array);
    let names = variants
        .into_iter()
        .flatten()
        .map(|variant| &variant["const"]);
    json_schema!({"type": "string", "enum": names.collect::<Vec<_>>()})
}

/// Node labels.
pub fn labels(_: &mut SchemaGenerator) -> Schema {
    map(
        16,
        &json_schema!({"type": "string", "maxLength": LABEL_MAX, "pattern": LABEL}),
        &[],
    )
}

/// Quantities by resource name.
pub fn quantities(_: &mut SchemaGenerator) -> Schema {
    let quantity = json_schema!({"type": "string", "format": QUANTITY});
    map(8, &quantity, &QUANTITIES)
}

/// A map of at most `max` entries with qualified names as keys, and with these rules.
fn map(max: u16, values: &Schema, rules: &[Rule]) -> Schema {
    // CRDs may not use `propertyNames` of OpenAPI.
    let keys = json!({"rule": KEYS_ARE_NAMES, "message": KEYS_MESSAGE});
    let rules = rules.iter().map(|rule| json!(rule));
    let rules: Vec<Value> = [keys].into_iter().chain(rules).collect();
    json_schema!({
        "type": "object",
        "additionalProperties": values,
        "maxProperties": max,
        "x-kubernetes-validations": rules,
    })
}

/// By group, kind and version.
static SCHEMAS: Mutex<BTreeMap<[&str; 3], &Value>> = Mutex::new(BTreeMap::new());

impl Kind {
    /// The CRD with only `version`, which must be a version of this kind.
    pub fn crd(&self, version: &Version) -> CustomResourceDefinition {
        let mut crd = (version.derived)();
        crd.metadata.name = Some(self.crd_name());
        let names = &mut crd.spec.names;
        names.plural = self.plural.to_owned();
        names.list_kind = Some(format!("{}List", names.kind));
        names.short_names = given(self.short_name).map(|name| vec![name]);
        names.categories = Some(vec![self.brand.category.to_owned()]);
        for derived in &mut crd.spec.versions {
            let own = derived.additional_printer_columns.take();
            derived.additional_printer_columns = Some(columns(version, own.unwrap_or_default()));
            if let Pods::Counted(path) = version.pods {
                let scale = CustomResourceSubresourceScale {
                    spec_replicas_path: spec_path(path),
                    status_replicas_path: ".status.replicas".to_owned(),
                    label_selector_path: Some(".status.selector".to_owned()),
                };
                derived.subresources.get_or_insert_default().scale = Some(scale);
            }
            let schema = derived.schema.as_mut();
            if let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
                complete(root, self, version);
            }
        }
        crd
    }

    /// The schema of the spec of `version`. Computed once.
    pub fn schema_of(&self, version: &Version) -> &'static Value {
        let key = [self.group, self.kind, version.name];
        let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
        schemas.entry(key).or_insert_with(|| {
            let mut crd = serde_json::to_value(self.crd(version)).unwrap_or_default();
            let spec = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
            Box::leak(Box::new(spec.map(Value::take).unwrap_or_default()))
        })
    }
}

/// `text`, unless it is empty.
fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The columns of `kubectl get`: `own`, those of the Rust type, and those of every kind. A kind whose
/// number of pods is derived shows the latter with `-o wide` only.
fn columns(
    version: &Version,
    own: Vec<CustomResourceColumnDefinition>,
) -> Vec<CustomResourceColumnDefinition> {
    let column = |name: &str, type_: &str, json_path: &str| CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: json_path.to_owned(),
        priority: matches!(version.pods, Pods::Derived { .. }).then_some(1),
        ..CustomResourceColumnDefinition::default()
    };
    let ready = column("Ready", "integer", ".status.readyReplicas");
    let available = column("Available", "string", AVAILABLE_PATH);
    let age = CustomResourceColumnDefinition {
        priority: None,
        ..column("Age", "date", ".metadata.creationTimestamp")
    };
    match version.pods {
        Pods::Counted(path) => {
            let desired = column("Desired", "integer", &spec_path(path));
            let of_all = [desired, ready, available].into_iter();
            of_all.chain(own).chain([age]).collect()
        }
        Pods::Derived { .. } => {
            let real_qps = column("Real QPS", "integer", ".status.realQPS");
            let of_all = [ready, real_qps, available, age];
            own.into_iter().chain(of_all).collect()
        }
        Pods::Absent => own.into_iter().chain([available, age]).collect(),
    }
}

/// `path` below `spec`, as a JSON path.
fn spec_path(path: Path) -> String {
    format!(".spec.{}", path.join("."))
}

/// Adds to a derived schema what does not follow from the type.
fn complete(root: &mut JSONSchemaProps, kind: &Kind, version: &Version) {
    let text = |description: &str| JSONSchemaProps {
        description: Some(description.to_owned()),
        ..of_type("string")
    };
    let name_rule = version.service_name.cel();
    let properties = root.properties.get_or_insert_default();
    for part in properties.values_mut() {
        normalize(part);
    }
    // The fields of an absent status have their defaults. A spec has none: an object that was stored without
    // one must not get pods by a migration.
    if let Some(status) = properties.get_mut("status") {
        status.default = Some(JSON(json!({})));
    }
    properties.insert("apiVersion".to_owned(), text(API_VERSION));
    properties.insert("kind".to_owned(), text(KIND));
    properties.insert("metadata".to_owned(), of_type("object"));
    root.required = None;
    root.title = None;
    root.description = given(kind.description);
    root.x_kubernetes_validations = Some(root_rules(name_rule));
}

/// Rules on the whole object. They apply only on creation: otherwise every status patch of an old
/// object that violates one would be rejected.
fn root_rules(name_rule: Option<String>) -> Vec<ValidationRule> {
    const IS_LABEL: &str = "(size(self.metadata.name) <= 63 \
                            && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))";
    let on_create = |cel: &str, field: &str, reason: &str, message: &str| ValidationRule {
        rule: format!("oldSelf.hasValue() || {cel}"),
        field_path: Some(field.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        optional_old_self: Some(true),
        ..ValidationRule::default()
    };
    let has_spec = "has(self.spec)";
    let spec = on_create(has_spec, ".spec", "FieldValueRequired", "must be given");
    let name = name_rule.map(|needed| {
        let cel = match needed.as_str() {
            "true" => IS_LABEL.to_owned(),
            needed => format!("!({needed}) || {IS_LABEL}"),
        };
        // A rule may only name a field that is in the schema. `metadata` has no fields there: strict schemas
        // that tools make from CRDs would reject all its other fields, such as labels.
        let (field, reason) = (".metadata", "FieldValueInvalid");
        on_create(&cel, field, reason, SERVICE_NAME_MESSAGE)
    });
    [spec].into_iter().chain(name).collect()
}

/// Brings a derived schema, and everything below it, into the form of controller-gen.
fn normalize(schema: &mut JSONSchemaProps) {
    schema.description = schema.description.as_deref().map(one_line_per_paragraph);
    // `nullable` is how schemars marks an optional field. The API server drops these nulls.
    schema.nullable = None;
    if let Some(default) = &schema.default
        && matches!(default.0, Value::Null | Value::Array(_) | Value::Object(_))
    {
        schema.default = None;
    }
    if schema.type_.as_deref() == Some("integer") {
        schema.minimum.get_or_insert(f64::from(i32::MIN));
        schema.maximum.get_or_insert(f64::from(i32::MAX));
        let fits = |bound: Option<f64>| bound.is_some_and(|it| it.abs() <= -f64::from(i32::MIN));
        let format = if fits(schema.minimum) && fits(schema.maximum) {
            "int32"
        } else {
            "int64"
        };
        schema.format = Some(format.to_owned());
    }
    if schema.format.as_deref() == Some(QUANTITY) {
        *schema = quantity_schema(schema.description.take());
    }
    if let Some(required) = &mut schema.required {
        required.sort_unstable();
    }
    for property in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        normalize(property);
        // A server-side apply that empties an object leaves null, which means an empty object.
        let may_be_empty =
            property.type_.as_deref() == Some("object") && property.required.is_none();
        property.nullable = may_be_empty.then_some(true);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        normalize(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        normalize(values);
    }
}

/// A quantity as in controller-gen, with bounds.
fn quantity_schema(description: Option<String>) -> JSONSchemaProps {
    JSONSchemaProps {
        description,
        any_of: Some(["integer", "string"].map(of_type).to_vec()),
        x_kubernetes_int_or_string: Some(true),
        pattern: Some(limits::QUANTITY.to_owned()),
        minimum: Some(0.0),
        #[allow(clippy::cast_precision_loss, reason = "it is exact: 2^53 - 1")]
        maximum: Some(INT64_MAX as f64),
        max_length: Some(limits::QUANTITY_MAX.into()),
        ..JSONSchemaProps::default()
    }
}

fn of_type(type_: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(type_.to_owned()),
        ..JSONSchemaProps::default()
    }
}

/// Joins the lines of each paragraph: doc comments are wrapped for the editor, and `kubectl
/// explain` wraps for the terminal.
fn one_line_per_paragraph(text: &str) -> String {
    let one_line = |paragraph: &str| {
        let lines: Vec<&str> = paragraph.split('\n').map(str::trim).collect();
        lines.join(" ")
    };
    let paragraphs: Vec<String> = text.split("\n\n").map(one_line).collect();
    paragraphs.join("\n\n")
}

/// controller-gen's description of `apiVersion`.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object.
Servers should convert recognized schemas to the latest internal value, and
may reject unrecognized values.
More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";

/// controller-gen's description of `kind`.
const KIND: &str = "Kind is a string value representing the REST resource this object represents.
Servers may infer this from the endpoint the client submits requests to.
Cannot be updated.
In CamelCase.
More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
