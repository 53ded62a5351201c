//! The alerts and dashboards, read by a real promtool: it evaluates each alert on series that make it fire
//! and on series that do not, and parses each query of a dashboard. That their metrics and labels are
//! those of a running manager is tested beside the files, and in `tests/manager`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use quartet_operator::names::METRICS_SERVICE;
use serde_json::{Value, json};
use testkit::built;

/// The label matchers of every dashboard query.
const SELECTION: &str = r#"job=~"$job",namespace=~"$namespace",pod=~"$pod""#;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Returns the rules in the format of a Prometheus rule file.
fn alerts() -> Value {
    let rules: Value = serde_saphyr::from_str(&read("config/prometheus/rules.yaml")).expect("YAML");
    rules["spec"].clone()
}

/// Returns a rule for every query of every dashboard, in the same format.
fn queries() -> Value {
    let mut rules = Vec::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/grafana");
    for entry in std::fs::read_dir(folder).expect("dashboards") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a text");
        let dashboard: Value = serde_json::from_str(&text).expect("a dashboard");
        let panels = dashboard["panels"].as_array().expect("panels").iter();
        let targets = panels.filter_map(|panel| panel["targets"].as_array());
        for target in targets.flatten() {
            let query = target["expr"].as_str().expect("a query");
            let query = query
                .replace(SELECTION, &format!("job=\"{METRICS_SERVICE}\""))
                .replace("$__rate_interval", "1m");
            rules.push(json!({"record": format!("query:{}", rules.len()), "expr": query}));
        }
    }
    assert!(rules.len() > 30, "{rules:?}");
    json!({"groups": [{"name": "dashboards", "rules": rules}]})
}

/// Returns the file for `promtool test rules` that evaluates the alerts on every example.
fn tests(examples: &[Value]) -> Value {
    let mut tests = Vec::new();
    for example in examples {
        let alert = example["alert"].as_str().expect("a name");
        let firing = format!("count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
        let fires = json!([{"labels": "{}", "value": 1}]);
        for (how, expected) in [("fires", fires), ("rests", json!([]))] {
            let series = example[how].as_object().expect("series").iter();
            let series = series.map(|(name, values)| {
                let name = name.replace("JOB", &format!("job=\"{METRICS_SERVICE}\""));
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
    json!({"rule_files": ["alerts.json"], "evaluation_interval": "1m", "tests": tests})
}

fn promtool(folder: &Path, arguments: &[&str]) {
    let run = Command::new(built("hack/prometheus").join("promtool"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("promtool runs");
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(run.status.success(), "promtool {arguments:?}: {said}");
    println!("{said}");
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let text = include_str!("monitoring/examples.yaml");
    let examples: Vec<Value> = serde_saphyr::from_str(text).expect("a list of examples");
    let alerts = alerts();
    let tried: BTreeSet<_> = examples.iter().map(|it| it["alert"].as_str()).collect();
    let rules = alerts["groups"][0]["rules"].as_array().expect("rules");
    let all: BTreeSet<_> = rules.iter().map(|it| it["alert"].as_str()).collect();
    assert_eq!(tried, all);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("monitoring");
    std::fs::create_dir_all(&folder).unwrap();
    for (file, content) in [
        ("tests.json", tests(&examples)),
        ("queries.json", queries()),
        ("alerts.json", alerts),
    ] {
        std::fs::write(folder.join(file), content.to_string()).unwrap();
    }
    promtool(&folder, &["check", "rules", "--lint-fatal", "alerts.json"]);
    promtool(&folder, &["check", "rules", "queries.json"]);
    promtool(&folder, &["test", "rules", "tests.json"]);
}
