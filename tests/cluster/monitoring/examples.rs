//! The examples of `examples.yaml`, as tests for promtool.

use serde_json::{Value, json};

/// Returns the examples.
pub(crate) fn examples() -> Vec<Value> {
    serde_saphyr::from_str(include_str!("examples.yaml")).expect("a list of examples")
}

/// Returns the file for `promtool test rules` that evaluates `rules` on every example.
pub(crate) fn promtool_tests(rules: &str, job: &str) -> Value {
    let mut tests = Vec::new();
    for example in examples() {
        let alert = example["alert"].as_str().expect("a name");
        let firing = format!("count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
        for (how, expected) in [
            ("fires", json!([{"labels": "{}", "value": 1}])),
            ("rests", json!([])),
        ] {
            let series = example[how].as_object().expect("series").iter();
            let series = series.map(|(name, values)| {
                let name = name.replace("JOB", &format!("job=\"{job}\""));
                json!({"series": name, "values": values})
            });
            tests.push(json!({
                "name": format!("{alert} {how}"),
                "interval": "1m",
                "input_series": series.collect::<Vec<_>>(),
                "promql_expr_test": [{"expr": firing, "eval_time": example["at"], "exp_samples": expected}],
            }));
        }
    }
    json!({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests})
}
