//! The state that the original operators left: their CRDs as controller-gen wrote them, with one
//! version each and no bounds, and objects as users may have stored them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use quartet_operator::packaging;
use quartet_versions::Kind;
use serde_json::{Value, json};
use testkit::is_original;

use crate::environment::TestEnv;

/// Returns the kinds that had an original operator.
pub(crate) fn kinds() -> Vec<&'static Kind> {
    let mut kinds = packaging::kinds();
    kinds.retain(|kind| is_original(kind.kind));
    kinds
}

/// Installs the CRDs of the original operators.
pub(crate) async fn install_crds(env: &TestEnv) {
    for kind in kinds() {
        let crd = serde_json::to_value(crd(kind)).expect("JSON");
        let applied = env.apply_crd(kind, crd).await;
        applied.expect("the API server accepts the CRD");
    }
}

/// Returns the CRD that the original operator of this kind installed.
fn crd(kind: &Kind) -> CustomResourceDefinition {
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/original/crds");
    let text = std::fs::read_to_string(format!("{crds}/{}.yaml", kind.plural));
    serde_saphyr::from_str(&text.expect("a CRD")).expect("YAML")
}

/// Returns specs that the original CRD of this kind accepted, with the name of the object for each;
/// null is an object without a spec.
pub(crate) fn specs(kind: &Kind) -> Vec<(&'static str, Value)> {
    let web = |port: i64, single: i64, total: i64| json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": single, "totalQPS": total});
    let of_count = |field: &str| {
        vec![
            ("usual", json!({field: 3})),
            ("zero", json!({field: 0})),
            ("negative", json!({field: -5})),
            ("huge", json!({field: i32::MAX})),
            ("smallest", json!({field: i32::MIN})),
            ("without-spec", Value::Null),
        ]
    };
    match kind.kind {
        "Memcached" | "HelloWorld" => of_count("size"),
        "Nginx" => of_count("count"),
        _ => vec![
            ("usual", web(30003, 800, 2400)),
            (
                "no-total",
                json!({"image": "nginx", "port": 30004, "singlePodsQPS": 1}),
            ),
            ("no-pods", web(30005, 500, 0)),
            ("negative", web(-1, -2, -3)),
            ("divides-by-zero", web(0, 0, 100)),
            ("huge", web(65536, i64::from(i32::MAX), i64::from(i32::MAX))),
            (
                "no-image",
                json!({"image": "", "port": 30006, "singlePodsQPS": 1, "totalQPS": 1}),
            ),
            (
                "long-image",
                json!({"image": "i".repeat(5000), "port": 30007, "singlePodsQPS": 1}),
            ),
            ("without-spec", Value::Null),
        ],
    }
}
