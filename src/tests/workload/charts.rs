//! Pods of other software in the namespace, with a Helm release of the name of the resource.

use super::*;

#[test]
fn no_selector_matches_the_pods_of_a_well_used_chart() {
    const CONSTRAINT: &str =
        "/spec/template/spec/topologySpreadConstraints/0/labelSelector/matchLabels";
    let charts = include_str!("testdata/charts.yaml").replace("RELEASE", "shop");
    let charts: Vec<Value> = serde_saphyr::from_str(&charts).unwrap();
    let known = OPERATORS.iter().copied();
    for operator in known.filter(|it| KNOWN.contains(&it.kind().kind)) {
        let mut spec = sample_spec(operator.kind());
        spec["scheduling"]["topologySpreadConstraints"] =
            json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
        spec["service"]["enabled"] = json!(true);
        let resource = named(operator, "shop", spec);
        let status = status(operator, &resource, &at_rest(1));
        let text = status.selector.expect("a selector");
        let labels = text.split(',').filter_map(|label| label.split_once('='));
        let of_status = Value::from_iter(labels);
        let deployment = deployment(operator, &resource);
        let service = service(operator, &resource);
        let matched = |selector: &Value| {
            let selector = selector.as_object().expect("labels");
            let has = |it: &&Value| {
                selector
                    .iter()
                    .all(|(name, value)| it["labels"][name] == *value)
            };
            charts.iter().find(has).map(|it| &it["source"])
        };
        let constraint = deployment.pointer(CONSTRAINT).expect("a selector");
        for selector in [&of_status, constraint, &service["spec"]["selector"]] {
            assert_eq!(matched(selector), None, "{selector}");
        }
        // It cannot be changed, and a Deployment has only the pods that it controls.
        let selector = &deployment["spec"]["selector"]["matchLabels"];
        assert!(matched(selector).is_some(), "no chart is like {selector}");
    }
}
