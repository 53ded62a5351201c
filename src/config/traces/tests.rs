//! The result of environment variables, and the errors of invalid ones.

use super::*;

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

fn read(variables: &[(&str, &str)]) -> Result<Option<Traces>, InvalidTraces> {
    Traces::from_environment(|name| {
        let mut variables = variables.iter();
        let (_, value) = variables.find(|(variable, _)| *variable == name)?;
        Some(OsString::from(value))
    })
}

fn with(more: &[(&str, &str)]) -> Traces {
    read(&[&[ENDPOINT], more].concat()).unwrap().unwrap()
}

#[test]
fn without_an_endpoint_or_when_told_so_there_are_no_traces() {
    let (name, _) = ENDPOINT;
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[(name, "")]), Ok(None));
    assert_eq!(read(&[("OTEL_TRACES_EXPORTER", "otlp")]), Ok(None));
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_SDK_DISABLED", "TRUE"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        assert_eq!(read(&[ENDPOINT, off]), Ok(None), "{off:?}");
    }
    with(&[
        ("OTEL_SDK_DISABLED", "false"),
        ("OTEL_TRACES_EXPORTER", "otlp"),
    ]);
}

#[test]
fn the_defaults_are_those_of_the_specification() {
    let traces = with(&[]);
    assert_eq!(traces.endpoint, "http://collector:4318/v1/traces");
    assert_eq!(traces.timeout, Duration::from_secs(10));
    assert_eq!(traces.headers, []);
    assert_eq!(traces.authorities, None);
    let everything = Sampler {
        by_parent: true,
        ratio: 1.0,
    };
    assert_eq!(traces.sampler, everything);
    let own = ("service.name".to_owned(), "quartet-operator".to_owned());
    assert!(traces.resource.contains(&own));
}

#[test]
fn what_is_for_traces_alone_wins_and_an_endpoint_of_theirs_is_taken_as_it_stands() {
    let traces = with(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other:1/in"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.crt"),
    ]);
    assert_eq!(traces.endpoint, "https://other:1/in");
    assert_eq!(traces.timeout, Duration::from_millis(2500));
    assert_eq!(traces.authorities, Some(PathBuf::from("/ca.crt")));
    let traces = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/b/")]);
    assert_eq!(traces.unwrap().unwrap().endpoint, "http://a/b/v1/traces");
}

#[test]
fn pairs_are_decoded_and_headers_are_not_shown() {
    let traces = with(&[
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20s3cret, x-team = a",
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=b,k8s.cluster.name=%C3%A9,,service.version=7",
        ),
    ]);
    let [(name, value), (_, team)] = traces.headers.as_slice() else {
        panic!("{}", traces.headers.len());
    };
    assert_eq!(
        (name.as_str(), value.to_str().unwrap()),
        ("authorization", "Bearer s3cret")
    );
    assert_eq!(team, "a");
    assert!(!format!("{traces:?}").contains("s3cret"));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let expected = [
        pair("service.name", "b"),
        pair("k8s.cluster.name", "é"),
        pair("service.version", "7"),
    ];
    assert_eq!(traces.resource, expected);
    let named = with(&[
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=b"),
        ("OTEL_SERVICE_NAME", "c"),
    ]);
    let names: Vec<_> = named
        .resource
        .iter()
        .filter(|(key, _)| key == "service.name")
        .collect();
    assert_eq!(names, [&pair("service.name", "c")]);
}

#[test]
fn every_sampler_of_the_specification_is_known() {
    for (name, ratio, expected) in [
        ("always_on", None, (false, 1.0)),
        (
            "always_off",
            Some("nonsense that nobody reads"),
            (false, 0.0),
        ),
        ("traceidratio", Some("0.25"), (false, 0.25)),
        ("traceidratio", None, (false, 1.0)),
        ("parentbased_always_on", None, (true, 1.0)),
        ("parentbased_always_off", None, (true, 0.0)),
        ("parentbased_traceidratio", Some("0"), (true, 0.0)),
    ] {
        let mut variables = vec![("OTEL_TRACES_SAMPLER", name)];
        variables.extend(ratio.map(|ratio| ("OTEL_TRACES_SAMPLER_ARG", ratio)));
        let Sampler { by_parent, ratio } = with(&variables).sampler;
        assert_eq!((by_parent, ratio), expected, "{name}");
    }
}

#[test]
fn a_value_that_cannot_be_used_is_named_and_refused() {
    for (variable, value, reason) in [
        ("OTEL_SDK_DISABLED", "yes", "give true or false"),
        ("OTEL_TRACES_EXPORTER", "jaeger", "give otlp or none"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "collector:4318",
            "http",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "grpc://collector",
            "neither http nor https",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http:// a",
            "not a URL",
        ),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "only http/protobuf"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "only none"),
        (
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            "/a",
            "client certificates",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "milliseconds"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a", "key=value"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c", "headers"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=%0A", "headers"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=%", "key=value"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=%FF", "key=value"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "give always_on"),
    ] {
        let error = read(&[ENDPOINT, (variable, value)])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(&format!("{variable}: ")), "{error}");
        assert!(error.contains(reason), "{error}");
    }
    let ratio = [
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
    ];
    let error = read(&[&[ENDPOINT], ratio.as_slice()].concat()).unwrap_err();
    assert!(error.to_string().contains("from 0 to 1"));
}
