//! Requirements for every schema, so that fields added later meet them, too.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::tests::workload::kinds;
use quartet_versions::limits::QUALIFIED_NAME_MAX;
use quartet_versions::replicas::Pods;
use quartet_versions::rules::{KEYS_ARE_NAMES, KEYS_MESSAGE};

/// The parts of our CRDs whose description and bounds are not ours.
const OF_KUBERNETES: [&str; 3] = [".apiVersion", ".kind", ".metadata"];

fn root(crd: &CustomResourceDefinition) -> &JSONSchemaProps {
    let schema = crd.spec.versions[0].schema.as_ref().unwrap();
    schema.open_api_v3_schema.as_ref().unwrap()
}

/// Every part of `schema` with its path; items as `[]`, values of maps as `{}`.
fn parts<'a>(
    path: &str,
    schema: &'a JSONSchemaProps,
    found: &mut Vec<(String, &'a JSONSchemaProps)>,
) {
    found.push((path.to_owned(), schema));
    for (name, property) in schema.properties.iter().flatten() {
        parts(&format!("{path}.{name}"), property, found);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        parts(&format!("{path}[]"), items, found);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        parts(&format!("{path}{{}}"), values, found);
    }
}

/// Runs `check` on every part of every version's schema that we define.
fn for_every_part(check: impl Fn(&str, &JSONSchemaProps)) {
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let crd = kind.crd(version);
            let mut found = Vec::new();
            parts("", root(&crd), &mut found);
            assert!(found.len() > 20, "{} {}", kind.kind, version.name);
            for (path, schema) in found {
                if !OF_KUBERNETES.contains(&path.as_str()) {
                    check(&format!("{} {} {path}", kind.kind, version.name), schema);
                }
            }
        }
    }
}

#[test]
fn every_property_has_a_description() {
    for_every_part(|path, schema| {
        let named_by_its_parent = path.ends_with("[]") || path.ends_with("{}");
        let description = schema.description.as_deref().unwrap_or_default();
        let is_named = named_by_its_parent || description.len() > 10;
        assert!(is_named, "{path}: {description:?}");
        assert!(!description.contains("Auto-generated"), "{path}");
    });
}

#[test]
fn optional_properties_tell_their_default_and_required_ones_that_they_have_none() {
    for_every_part(|path, schema| {
        let properties = schema.properties.iter().flatten();
        for (name, property) in properties.filter(|_| path.contains(".spec")) {
            let description = property.description.as_deref().unwrap_or_default();
            let required = schema.required.iter().flatten().any(|it| it == name);
            let told = property.default.is_some()
                || description.contains(if required { "No default" } else { "Default: " });
            // For objects with required fields and for items of lists, their own fields tell it.
            let says_it_below =
                required && property.type_.as_deref() == Some("object") || path.contains("[]");
            assert!(told || says_it_below, "{path}.{name}: {description:?}");
        }
    });
}

#[test]
fn every_value_is_bounded() {
    for_every_part(|path, schema| {
        let format = schema.format.as_deref();
        let is_bounded = match schema.type_.as_deref() {
            Some("integer") => {
                let is_sized = matches!(format, Some("int32" | "int64"));
                schema.minimum.is_some() && schema.maximum.is_some() && is_sized
            }
            Some("string") => {
                let has_length = schema.max_length.is_some();
                has_length || schema.enum_.is_some() || format == Some("date-time")
            }
            Some("array") => schema.max_items.is_some() && schema.x_kubernetes_list_type.is_some(),
            Some("object") if schema.additional_properties.is_some() => {
                schema.max_properties.is_some() && schema.x_kubernetes_validations.is_some()
            }
            Some("object") => schema.properties.is_some(),
            Some("boolean") => true,
            None => {
                assert_eq!(schema.x_kubernetes_int_or_string, Some(true), "{path}");
                schema.max_length.is_some() && schema.minimum.is_some()
            }
            other => panic!("{path}: {other:?}"),
        };
        assert!(is_bounded, "{path}");
    });
}

#[test]
fn the_rule_of_keys_says_the_longest_qualified_name() {
    for text in [KEYS_ARE_NAMES, KEYS_MESSAGE] {
        assert!(text.contains(&QUALIFIED_NAME_MAX.to_string()), "{text}");
    }
}

#[test]
fn only_objects_that_may_be_empty_are_nullable_and_nothing_unknown_is_kept() {
    for_every_part(|path, schema| {
        let is_object = schema.type_.as_deref() == Some("object");
        let is_below_root = path.matches('.').count() > 1;
        let may_be_empty = is_object && schema.required.is_none() && !path.ends_with("[]");
        let nullable = (may_be_empty && is_below_root).then_some(true);
        assert_eq!(schema.nullable, nullable, "{path}");
        assert_eq!(schema.x_kubernetes_preserve_unknown_fields, None, "{path}");
        let null_in_enum = schema.enum_.iter().flatten().any(|value| value.0.is_null());
        assert!(!null_in_enum, "{path}");
    });
}

/// A field that only one version has is in the conversion data of the other. A default would be
/// added to objects that came from the other version without the field.
#[test]
fn a_default_stands_only_where_both_versions_have_the_field() {
    let mut defaults = 0;
    for kind in kinds() {
        for (version, other) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            let crd = kind.crd(version);
            let mut found = Vec::new();
            parts("", root(&crd), &mut found);
            for (path, schema) in found {
                let Some(default) = &schema.default else {
                    continue;
                };
                // An absent spec is an empty one; the status is the same in both versions.
                if path == ".spec" || path.starts_with(".status") {
                    continue;
                }
                let field = path.strip_prefix(".spec.").expect("a field of the spec");
                let mut mappings = kind.field_mappings.iter();
                let moved = mappings.find_map(|it| {
                    if version.name == kind.hub.name {
                        (it.hub == [field]).then_some(it.spoke)
                    } else {
                        (it.spoke == [field]).then_some(it.hub)
                    }
                });
                let theirs = moved.map_or_else(|| field.to_owned(), |path| path.join("."));
                let crd = kind.crd(other);
                let mut fields = Vec::new();
                parts("", root(&crd), &mut fields);
                let same = fields.iter().find(|it| it.0 == format!(".spec.{theirs}"));
                let (_, same) = same.unwrap_or_else(|| panic!("{} {path}", kind.kind));
                assert!(same.default.is_none() || same.default.as_ref() == Some(default));
                defaults += 1;
            }
        }
    }
    assert!(defaults >= 3, "only {defaults}");
}

/// Fields with a transition rule that could be unset: CEL does not check such an update.
fn that_can_be_unset(schema: &JSONSchemaProps) -> Vec<String> {
    let mut found = Vec::new();
    parts("", schema, &mut found);
    let mut unset = Vec::new();
    for (path, part) in found {
        for (name, field) in part.properties.iter().flatten() {
            let mut rules = field.x_kubernetes_validations.iter().flatten();
            let has_rule = rules.any(|rule| rule.rule.contains("oldSelf"));
            let is_required = part.required.iter().flatten().any(|it| it == name);
            if has_rule && !is_required && field.default.is_none() {
                unset.push(format!("{path}.{name}"));
            }
        }
    }
    unset
}

#[test]
fn a_field_that_may_not_change_is_required_or_has_a_default() {
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let unset = that_can_be_unset(root(&kind.crd(version)));
            let expected = Vec::<String>::new();
            assert_eq!(unset, expected, "{kind:?} {version:?}");
        }
    }
    let rule = serde_json::json!([{"rule": "self == oldSelf", "message": "may not be changed"}]);
    let field = |default: Option<&str>| {
        serde_json::json!({
            "type": "string", "default": default, "x-kubernetes-validations": rule,
        })
    };
    let schema = serde_json::json!({"type": "object", "required": ["b"], "properties": {
        "a": field(Some("1Gi")), "b": field(None), "c": field(None),
    }});
    let schema = serde_json::from_value(schema).expect("a schema");
    assert_eq!(that_can_be_unset(&schema), [".c"]);
}

#[test]
fn the_status_has_one_schema_in_both_versions() {
    for kind in kinds() {
        let status = |crd: CustomResourceDefinition| {
            root(&crd).properties.as_ref().unwrap()["status"].clone()
        };
        let spoke = status(kind.crd(&kind.spoke));
        assert_eq!(spoke, status(kind.crd(&kind.hub)), "{kind:?}");
    }
}

#[test]
fn both_versions_have_the_names_that_the_kind_says() {
    for kind in kinds() {
        let (spoke, hub) = (kind.crd(&kind.spoke), kind.crd(&kind.hub));
        assert_eq!(spoke.spec.names, hub.spec.names);
        assert_eq!(spoke.spec.group, kind.group);
        assert_eq!(spoke.spec.names.plural, kind.plural);
        assert_eq!(spoke.spec.names.kind, kind.kind);
        let expected = Some(vec!["quartet".to_owned()]);
        assert_eq!(spoke.spec.names.categories, expected);
        assert_eq!(spoke.spec.names.short_names.as_ref().map(Vec::len), Some(1));
        assert_eq!(spoke.spec.versions[0].name, kind.spoke.name);
        assert_eq!(hub.spec.versions[0].name, kind.hub.name);
        let expected = format!("quartet-operator-{}", kind.controller_name());
        assert_eq!(kind.field_manager, expected);
    }
}

#[test]
fn the_new_version_does_not_have_the_fields_that_moved() {
    for kind in kinds() {
        let crd = kind.crd(&kind.hub);
        let spec = &root(&crd).properties.as_ref().unwrap()["spec"];
        let fields = spec.properties.as_ref().unwrap();
        for field in kind.field_mappings {
            let (from, to) = (field.spoke[0], field.hub[0]);
            assert_eq!(fields.contains_key(from), from == to, "{kind:?}: {from}");
        }
    }
}

#[test]
fn a_version_that_counts_replicas_can_be_scaled_and_no_other() {
    let mut scaled = 0;
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let crd = kind.crd(version);
            let subresources = crd.spec.versions[0].subresources.as_ref().unwrap();
            let Pods::Counted(path) = version.pods else {
                assert_eq!(subresources.scale, None, "{kind:?} {version:?}");
                continue;
            };
            let scale = subresources.scale.as_ref().unwrap();
            let expected = format!(".spec.{}", path.join("."));
            assert_eq!(scale.spec_replicas_path, expected);
            assert_eq!(scale.status_replicas_path, ".status.replicas");
            let found = scale.label_selector_path.as_deref();
            assert_eq!(found, Some(".status.selector"));
            scaled += 1;
        }
    }
    assert!(scaled >= 6, "two versions of three kinds, not {scaled}");
}
