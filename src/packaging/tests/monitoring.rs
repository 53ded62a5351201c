//! The hand-written alerts and dashboards: they are complete, have runbooks and non-overlapping
//! panels, and use only metrics and labels of the manager. `tests/cluster/monitoring.rs` evaluates
//! each alert.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::committed;
use crate::names::{LEASE, METRICS_SERVICE};

/// The dashboards and their uids, which must never change because links contain them. The first
/// two have the names of kubebuilder's Grafana plugin.
const DASHBOARDS: [(&str, &str); 3] = [
    ("controller-resources-metrics", "quartet-operator-resources"),
    ("controller-runtime-metrics", "quartet-operator-runtime"),
    ("webhooks", "quartet-operator-webhooks"),
];

/// Labels that a scrape adds to every series.
const OF_EVERY_SERIES: [&str; 5] = ["job", "namespace", "pod", "instance", "exported_namespace"];

/// Not runbooks: the index, and a page for the links in the alerts of 0.1.0.
const OTHER_PAGES: [&str; 2] = ["README.md", "QuartetOperatorReconcilePanics.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    let text = value[field].as_str().unwrap_or_default();
    assert!(!text.trim().is_empty(), "no {field}: {value}");
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn keys(value: &Value) -> Vec<&str> {
    let fields = value.as_object().expect("an object");
    fields.keys().map(String::as_str).collect()
}

fn alerts() -> Vec<Value> {
    let rules = committed("config/prometheus/rules.yaml");
    let [group] = list(&rules["spec"]["groups"]) else {
        panic!("one group")
    };
    list(&group["rules"]).to_vec()
}

fn runbook(alert: &Value) -> String {
    format!("docs/runbooks/{}.md", text(alert, "alert"))
}

fn dashboards() -> Vec<Value> {
    let read = |(file, _): &(&str, &str)| {
        let path = root().join(format!("grafana/{file}.json"));
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    DASHBOARDS.iter().map(read).collect()
}

/// The panels with queries.
fn graphs(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = list(&dashboard["panels"]).iter();
    panels.filter(|panel| panel["type"] != "row")
}

fn queries() -> BTreeSet<String> {
    let dashboards = dashboards();
    let panels = dashboards.iter().flat_map(graphs);
    let targets = panels.flat_map(|panel| list(&panel["targets"]));
    targets.map(|it| text(it, "expr").to_owned()).collect()
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let alerts = alerts();
    let named: BTreeSet<_> = alerts.iter().map(|it| root().join(runbook(it))).collect();
    assert_eq!(named.len(), alerts.len(), "two alerts of one name");
    let pages = std::fs::read_dir(root().join("docs/runbooks")).unwrap();
    let mut runbooks: BTreeSet<_> = pages.map(|entry| entry.unwrap().path()).collect();
    runbooks.retain(|path| !OTHER_PAGES.iter().any(|page| path.ends_with(page)));
    assert_eq!(named, runbooks);
}

#[test]
fn a_runbook_says_what_it_means_what_it_does_and_how_it_ends() {
    for alert in alerts() {
        let path = runbook(&alert);
        let runbook = std::fs::read_to_string(root().join(&path)).unwrap();
        for part in [
            &format!("# {}\n", text(&alert, "alert")),
            "## Meaning\n",
            "## Impact\n",
            "## Diagnosis\n",
            "## Mitigation\n",
        ] {
            assert!(runbook.contains(part), "{path} lacks {part:?}");
        }
    }
}

#[test]
fn each_alert_is_complete_and_links_its_runbook_in_this_repository() {
    let project = committed("packaging/project.yaml");
    for alert in alerts() {
        let expected = ["alert", "annotations", "expr", "for", "labels"];
        assert_eq!(keys(&alert), expected);
        let severity = text(&alert["labels"], "severity");
        assert!(["critical", "warning"].contains(&severity), "{alert}");
        assert!(text(&alert, "for").ends_with('m'), "{alert}");
        let annotations = &alert["annotations"];
        let expected = ["description", "runbook_url", "summary"];
        assert_eq!(keys(annotations), expected, "{alert}");
        assert!(text(annotations, "description").ends_with('.'), "{alert}");
        assert!(text(annotations, "summary").ends_with('.'), "{alert}");
        let repository = text(&project, "repository");
        let expected = format!("{repository}/blob/main/{}", runbook(&alert));
        assert_eq!(text(annotations, "runbook_url"), expected);
    }
}

#[test]
fn each_alert_looks_at_the_manager_alone() {
    let job = ("job".to_owned(), format!("=\"{METRICS_SERVICE}\""));
    let lease = ("name".to_owned(), format!("=\"{LEASE}\""));
    for alert in alerts() {
        for (metric, matchers) in selectors(text(&alert, "expr")) {
            assert!(matchers.contains(&job), "{metric} in {alert}");
            if metric == "leader_election_master_status" {
                assert!(matchers.contains(&lease), "{alert}");
            }
        }
    }
}

/// Each `metric{label="value",…}` of a query: the metric, and its labels with the required
/// values. A selector without braces would match every job.
fn selectors(query: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut selectors = Vec::new();
    let mut rest = query;
    while let Some((before, after)) = rest.split_once('{') {
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == ':';
        let name = before.rsplit(|it| !is_name(it)).next().unwrap_or_default();
        let (matchers, after) = after.split_once('}').expect("a closing brace");
        let matchers = matchers.split(',').map(|matcher| {
            let label = matcher.split(['=', '!']).next().unwrap_or_default();
            let condition = matcher.get(label.len()..).unwrap_or_default();
            (label.trim().to_owned(), condition.to_owned())
        });
        selectors.push((name.to_owned(), matchers.collect()));
        rest = after;
    }
    assert!(!selectors.is_empty(), "{query}");
    selectors
}

/// The labels in `by (…)` and `on (…)`.
fn grouped(query: &str) -> Vec<&str> {
    let lists = ["by (", "on ("]
        .into_iter()
        .flat_map(|word| query.split(word).skip(1));
    let labels = lists.flat_map(|list| list.split(')').next().unwrap_or_default().split(','));
    labels.map(str::trim).collect()
}

/// The labels of each metric in `docs/metrics.md`. `tests/support/metrics_list.rs` compares that
/// list with a running manager.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let mut metrics = BTreeMap::new();
    metrics.insert("up".to_owned(), BTreeSet::new());
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let [name, kind, labels, ..] = row.trim_matches('|').split('|').collect::<Vec<_>>()[..]
        else {
            panic!("{row}")
        };
        let words = labels.split(',').map(|it| it.trim().trim_matches('`'));
        let mut labels: BTreeSet<String> = words.map(ToOwned::to_owned).collect();
        let name = name.trim().trim_matches('`');
        if kind.trim() == "histogram" {
            for suffix in ["_sum", "_count"] {
                metrics.insert(format!("{name}{suffix}"), labels.clone());
            }
            labels.insert("le".to_owned());
            metrics.insert(format!("{name}_bucket"), labels);
        } else {
            metrics.insert(name.to_owned(), labels);
        }
    }
    metrics
}

#[test]
fn every_metric_and_label_that_a_query_names_is_one_of_the_manager() {
    let documented = documented();
    let alerts = alerts();
    let alerts = alerts.iter().map(|alert| text(alert, "expr").to_owned());
    for query in queries().into_iter().chain(alerts) {
        let mut there: BTreeSet<&str> = OF_EVERY_SERIES.into();
        for (metric, matchers) in selectors(&query) {
            let labels = documented.get(&metric);
            let labels = labels.unwrap_or_else(|| panic!("undocumented: {metric} in {query}"));
            for (label, _) in matchers {
                let known = labels.contains(&label) || OF_EVERY_SERIES.contains(&label.as_str());
                assert!(known, "{metric} has no label {label}: {query}");
            }
            there.extend(labels.iter().map(String::as_str));
        }
        for label in grouped(&query) {
            assert!(there.contains(label), "no label {label}: {query}");
        }
    }
}

#[test]
fn a_dashboard_keeps_its_uid_and_takes_its_data_source_from_a_variable() {
    let files = std::fs::read_dir(root().join("grafana")).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let named = DASHBOARDS.map(|(file, _)| format!("{file}.json"));
    assert_eq!(files.collect::<BTreeSet<_>>(), named.into());
    for (dashboard, (file, uid)) in dashboards().iter().zip(DASHBOARDS) {
        assert_eq!(dashboard["uid"], uid, "{file}");
        assert_eq!(dashboard["id"], Value::Null, "{file}: of one Grafana");
        assert!(text(dashboard, "title").starts_with("quartet-operator / "));
        let variables = list(&dashboard["templating"]["list"]).iter();
        let names: Vec<_> = variables.map(|it| text(it, "name")).collect();
        assert_eq!(names, ["DS_PROMETHEUS", "job", "namespace", "pod"]);
        for panel in graphs(dashboard) {
            text(panel, "title");
            text(panel, "description");
            let sources = list(&panel["targets"]).iter().chain([panel]);
            for source in sources.map(|it| &it["datasource"]) {
                assert_eq!(source["uid"], "${DS_PROMETHEUS}", "{file}: {panel}");
            }
        }
    }
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    for dashboard in dashboards() {
        let panels = list(&dashboard["panels"]);
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{}", dashboard["title"]);
        let mut taken = BTreeSet::new();
        for panel in panels {
            let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(x < 24, "{panel}");
                    assert!(taken.insert((x, y)), "{panel} overlaps another");
                }
            }
        }
    }
}

#[test]
fn every_query_is_limited_to_what_the_variables_select() {
    let selected = ["job", "namespace", "pod"].map(|it| (it.to_owned(), format!("=~\"${it}\"")));
    for query in queries() {
        for (metric, matchers) in selectors(&query) {
            for variable in &selected {
                assert!(matchers.contains(variable), "{metric} in {query}");
            }
        }
    }
}
