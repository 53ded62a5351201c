//! The overlay of three shards: each manager has its own pods, Lease and selector, and one of them
//! serves the webhooks.

use std::collections::BTreeSet;

use quartet_operator::names::LEASE;
use quartet_operator::shard::{Shard, name_in};
use serde_json::Value;

use crate::rendered::overlay;

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|it| it["kind"] == kind).collect()
}

/// Returns the value of a variable of a manager.
fn variable<'a>(deployment: &'a Value, name: &str) -> Option<&'a str> {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().expect("variables");
    let variable = variables.iter().find(|it| it["name"] == name)?;
    variable["value"].as_str()
}

/// Returns the names of the Deployments whose pods have these labels.
fn selected(objects: &[Value], selector: &Value) -> Vec<String> {
    let selector = selector.as_object().expect("a selector");
    let has_all = |deployment: &&Value| {
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        selector.iter().all(|(key, value)| labels[key] == *value)
    };
    let deployments = of_kind(objects, "Deployment").into_iter();
    let names = deployments
        .filter(has_all)
        .map(|it| &it["metadata"]["name"]);
    names
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn each_shard_has_a_manager_with_pods_and_a_lease_of_its_own() {
    let objects = overlay("shards");
    let deployments = of_kind(&objects, "Deployment");
    assert_eq!(deployments.len(), 3);
    let mut leases = BTreeSet::new();
    for deployment in &deployments {
        let name = deployment["metadata"]["name"].as_str().expect("a name");
        let selector = &deployment["spec"]["selector"]["matchLabels"];
        assert_eq!(selected(&objects, selector), [name]);
        let selector = variable(deployment, "WATCH_LABEL_SELECTOR").expect("a selector");
        let shard = Shard::of(selector).expect("valid").expect("not empty");
        assert_eq!(shard.selector(), selector, "in canonical form");
        leases.insert(name_in(LEASE, Some(shard.id())));
    }
    assert_eq!(leases.len(), 3, "{leases:?}");
    let roles = of_kind(&objects, "Role");
    let rules = roles.iter().filter_map(|role| role["rules"].as_array());
    let named: BTreeSet<_> = rules
        .flatten()
        .filter(|rule| rule["resources"][0] == "leases")
        .filter_map(|rule| rule["resourceNames"].as_array())
        .flatten()
        .map(|name| name.as_str().expect("a name").to_owned())
        .filter(|name| name != LEASE)
        .collect();
    assert_eq!(named, leases);
}

#[test]
fn the_webhook_service_selects_the_one_manager_that_serves_webhooks() {
    let objects = overlay("shards");
    let deployments = of_kind(&objects, "Deployment").into_iter();
    let serving: Vec<_> = deployments
        .filter(|it| variable(it, "ENABLE_WEBHOOKS") != Some("false"))
        .map(|it| it["metadata"]["name"].as_str().expect("a name"))
        .collect();
    let mut metrics = BTreeSet::new();
    for service in of_kind(&objects, "Service") {
        let found = selected(&objects, &service["spec"]["selector"]);
        if service["spec"]["ports"][0]["name"] == "webhook-server" {
            assert_eq!(found, serving);
        } else {
            let label = &service["metadata"]["labels"]["control-plane"];
            assert_eq!(label, "controller-manager", "the ServiceMonitor selects it");
            metrics.extend(found);
        }
    }
    assert_eq!(serving.len(), 1);
    assert_eq!(metrics.len(), 3, "{metrics:?}");
}
