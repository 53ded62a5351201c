//! The result of environment variables, and the errors of invalid ones. `tests/manager` tests those that
//! the SDK reads, with the real binary.

use std::path::PathBuf;

use super::*;

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, TracesError> {
    Settings::read(|name| {
        let mut variables = variables.iter();
        let (_, value) = variables.find(|(variable, _)| *variable == name)?;
        Some((*value).to_owned())
    })
}

fn with(more: &[(&str, &str)]) -> Settings {
    read(&[&[ENDPOINT], more].concat()).unwrap().unwrap()
}

#[test]
fn without_an_endpoint_or_when_disabled_there_are_no_traces() {
    let (name, _) = ENDPOINT;
    assert_eq!(read(&[]).unwrap(), None);
    assert_eq!(read(&[(name, "")]).unwrap(), None);
    assert_eq!(read(&[("OTEL_TRACES_EXPORTER", "otlp")]).unwrap(), None);
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_SDK_DISABLED", "TRUE"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        assert_eq!(read(&[ENDPOINT, off]).unwrap(), None, "{off:?}");
    }
    with(&[
        ("OTEL_SDK_DISABLED", "false"),
        ("OTEL_TRACES_EXPORTER", "otlp"),
    ]);
}

#[test]
fn the_defaults_are_those_of_the_specification() {
    let settings = with(&[]);
    assert_eq!(settings.endpoint, "http://collector:4318");
    assert_eq!(settings.timeout, Duration::from_secs(10));
    assert_eq!(settings.authorities, None);
}

#[test]
fn variables_for_traces_take_precedence() {
    let settings = with(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other:1/in"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.crt"),
    ]);
    assert_eq!(settings.endpoint, "https://other:1/in");
    assert_eq!(settings.timeout, Duration::from_millis(2500));
    assert_eq!(settings.authorities, Some(PathBuf::from("/ca.crt")));
}

#[test]
fn a_variable_with_an_invalid_value_is_named() {
    for (variable, value, reason) in [
        ("OTEL_TRACES_EXPORTER", "jaeger", "otlp or none"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "collector:4318",
            "http",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "grpc://collector",
            "http",
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http:// a", "a URL"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "milliseconds"),
    ] {
        let error = read(&[ENDPOINT, (variable, value)]);
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{variable}: ")), "{error}");
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn attributes_are_decoded_and_the_name_and_version_have_defaults() {
    let given = |pairs: &[(&'static str, &'static str)]| {
        let pairs = pairs.iter().map(|(key, value)| KeyValue::new(*key, *value));
        Resource::builder_empty().with_attributes(pairs).build()
    };
    let value = |resource: &Resource, key: &'static str| {
        resource.get(&Key::new(key)).map(|value| value.to_string())
    };
    let plain = resource(&given(&[]), Some(String::new()));
    for (key, expected) in [
        ("service.name", "quartet-operator"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("telemetry.sdk.language", "rust"),
    ] {
        assert_eq!(value(&plain, key).as_deref(), Some(expected));
    }
    let pairs = [
        ("service.name", "b"),
        ("k8s.cluster.name", "%C3%A9"),
        ("service.version", "7"),
    ];
    let named = resource(&given(&pairs), None);
    for (key, expected) in [
        ("service.name", "b"),
        ("k8s.cluster.name", "é"),
        ("service.version", "7"),
    ] {
        assert_eq!(value(&named, key).as_deref(), Some(expected));
    }
    let named = resource(&given(&pairs), Some("c".to_owned()));
    assert_eq!(value(&named, "service.name").as_deref(), Some("c"));
}
