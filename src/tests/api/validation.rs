use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kinds::{elasticweb, helloworld, memcached, nginx};
use crate::tests::api::conversion::generators::{arbitrary_spec, kinds_and_versions};
use quartet_versions::validation::service_name_error;
use quartet_versions::{Kind, Version};

mod within;

pub(crate) use within::within;

fn version_of(kind: &'static Kind, version: &str) -> &'static Version {
    kind.version(version).unwrap()
}

/// The error for `spec` in one version, if there is one.
fn said(kind: &'static Kind, version: &str, spec: Value) -> Option<String> {
    let checked = version_of(kind, version).validate(&spec);
    checked.err().map(|error| error.to_string())
}

#[test]
fn a_negative_size_reads_like_the_api_servers_own_error() {
    for (kind, version, field) in [
        (&memcached::KIND, "v1alpha1", "size"),
        (&nginx::KIND, "v1alpha1", "count"),
        (&helloworld::KIND, "v1", "replicas"),
    ] {
        let expected =
            format!("spec.{field}: Invalid value: -1: must be greater than or equal to 0");
        assert_eq!(said(kind, version, json!({field: -1})), Some(expected));
    }
}

#[test]
fn a_missing_field_and_a_null_are_told() {
    let said = |spec| said(&helloworld::KIND, "v1alpha1", spec);
    assert_eq!(said(Value::Null).as_deref(), Some("spec: Required value"));
    let missing = said(json!({}));
    let expected = Some("spec: Invalid value: missing field `size`");
    assert_eq!(missing.as_deref(), expected);
    assert!(said(json!({"size": null})).is_some());
}

#[test]
fn a_value_of_another_type_is_told() {
    let count = json!({"count": "3"});
    let policy = json!({"imagePullPolicy": "Sometimes"});
    let limits = json!({"resources": {"limits": {"cpu": -1}}});
    let unknown = "unknown variant `Sometimes`, expected one of `Always`";
    let number = "invalid type: string \"3\", expected i32";
    let list = "invalid type: sequence, expected";
    let variant = "data did not match any variant";
    for (said, problem) in [
        (said(&nginx::KIND, "v1alpha1", count), number),
        (said(&memcached::KIND, "v1", json!([1])), list),
        (said(&nginx::KIND, "v1", policy), unknown),
        (said(&nginx::KIND, "v1", limits), variant),
    ] {
        let expected = format!("spec: Invalid value: {problem}");
        assert!(said.as_ref().unwrap().starts_with(&expected), "{said:?}");
    }
}

#[test]
fn numbers_beyond_every_integer_type_are_refused() {
    for size in ["2147483648", "9223372036854775808", "1e300", "1.5"] {
        let spec: Value = serde_json::from_str(&format!(r#"{{"size": {size}}}"#)).unwrap();
        assert!(said(&memcached::KIND, "v1alpha1", spec).is_some(), "{size}");
    }
}

#[test]
fn names_that_a_service_cannot_carry_are_found() {
    let longest = "a".repeat(63);
    for name in ["a", "a-1", &longest] {
        assert_eq!(service_name_error(name), None, "{name}");
    }
    for name in ["", "1a", "a-", "a.b", "A", "é", &"a".repeat(64)] {
        let error = service_name_error(name);
        let found = error.map(|error| error.reason);
        assert_eq!(found, Some("FieldValueInvalid"), "{name}");
    }
}

#[test]
fn a_long_value_is_quoted_in_part() {
    let spec = json!({"image": "i".repeat(100_000), "imagePullPolicy": "p".repeat(100_000)});
    let said = said(&nginx::KIND, "v1", spec).unwrap();
    assert!(said.len() < 2000, "{}", said.len());
    let name = service_name_error(&"A".repeat(100_000)).unwrap();
    assert!(name.to_string().len() < 1000, "{name}");
}

proptest! {
    #[test]
    fn no_json_makes_validation_panic((kind, version) in kinds_and_versions(), spec in arbitrary_spec()) {
        said(kind, version, spec);
    }

    #[test]
    fn what_keeps_every_bound_of_its_schema_passes(
        (kind, version, spec) in kinds_and_versions()
            .prop_flat_map(|(kind, version)| (Just(kind), Just(version),
                within(kind.schema_of(version_of(kind, version)))))
    ) {
        prop_assert_eq!(said(kind, version, spec.clone()), None, "{}", spec);
    }
}

#[test]
fn an_elasticweb_that_the_original_crd_stored_is_told_in_a_condition() {
    let said = |spec| said(&elasticweb::KIND, "v1", spec);
    let spec =
        |total: Value| json!({"image": "a", "port": 30000, "singlePodsQPS": 1, "totalQPS": total});
    assert_eq!(said(spec(json!(1))), None);
    assert!(said(spec(json!("1"))).is_some());
}
