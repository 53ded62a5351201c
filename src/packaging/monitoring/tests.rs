//! The alerts have runbooks and the dashboards have room for their panels. Whether the
//! metrics exist is for `tests/monitoring` to find out.

use std::collections::BTreeSet;
use std::path::Path;

use super::alert::ALERTS;
use super::dashboard::DASHBOARDS;
use super::scrape;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let alerts: BTreeSet<_> = ALERTS
        .iter()
        .map(|alert| root().join(alert.runbook()))
        .collect();
    assert_eq!(alerts.len(), ALERTS.len(), "two alerts of one name");
    let runbooks: BTreeSet<_> = std::fs::read_dir(root().join("docs/runbooks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name != "README.md"))
        .collect();
    assert_eq!(alerts, runbooks);
}

#[test]
fn a_runbook_says_what_it_means_what_it_does_and_how_it_ends() {
    for alert in ALERTS {
        let text = std::fs::read_to_string(root().join(alert.runbook())).unwrap();
        for part in [
            &format!("# {}\n", alert.name),
            "## Meaning\n",
            "## Impact\n",
            "## Diagnosis\n",
            "## Mitigation\n",
        ] {
            assert!(text.contains(part), "{} lacks {part:?}", alert.runbook());
        }
    }
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    for dashboard in DASHBOARDS {
        let json = dashboard.to_json();
        let panels = json["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{}", dashboard.file);
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
    for dashboard in DASHBOARDS {
        for query in dashboard
            .rows
            .iter()
            .flat_map(|row| row.panels)
            .flat_map(|panel| panel.queries)
        {
            let expression = query.expression();
            assert!(expression.contains(r#"job=~"$job""#), "{expression}");
        }
    }
}

#[test]
fn the_reader_has_the_role_that_is_generated_and_the_token_that_is_shown() {
    let role = crate::packaging::tests::manifests()
        .unwrap()
        .into_iter()
        .find(|manifest| manifest.path.ends_with("metrics_reader_role.yaml"))
        .expect("the role");
    let binding = scrape::reader_binding();
    let name = binding["roleRef"]["name"].as_str().unwrap();
    assert!(
        role.text.contains(&format!("name: {name}\n")),
        "{}",
        role.text
    );
    let account = &scrape::reader_account()["metadata"];
    assert_eq!(binding["subjects"][0]["name"], account["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], account["namespace"]);
    let token = scrape::reader_token();
    let of = &token["metadata"]["annotations"]["kubernetes.io/service-account.name"];
    assert_eq!(*of, account["name"]);
    let shown = &scrape::service_monitor()["spec"]["endpoints"][0]["authorization"]["credentials"];
    assert_eq!(shown["name"], token["metadata"]["name"]);
}
