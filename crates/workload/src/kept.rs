//! The selector of a workload that an older operator created. It is immutable, so it is
//! retained as long as the workload exists. Its labels are added to the pods and override ours,
//! and other selectors of ours for these pods use its values. Pure.
//!
//! For example, the Memcached of operator-sdk's scaffold selects by `app.kubernetes.io/name`,
//! `version` and `managed-by`, with other values than ours.

use serde_json::{Map, Value};

use super::child::Child;
use super::names;

/// `spec.selector` of a workload; `None` if it equals the selector that we would set for the
/// resource `name` of the controller `controller_name`.
pub fn selector_of(workload: &Value, controller_name: &str, name: &str) -> Option<Box<Value>> {
    let selector = workload.get("spec")?.get("selector")?;
    let is_ours = selector.as_object().is_some_and(|it| it.len() == 1)
        && selector.get("matchLabels").is_some_and(|labels| {
            let ours = names::selector(controller_name, name);
            let has = |label: &str| labels.get(label).and_then(Value::as_str);
            labels.as_object().is_some_and(|it| it.len() == ours.len())
                && ours.iter().all(|(label, it)| has(label) == Some(it))
        });
    (!is_ours).then(|| Box::new(selector.clone()))
}

/// The value of a pod label that a retained selector requires.
pub(super) fn value<'a>(kept: &'a Value, label: &str) -> Option<&'a str> {
    labels(kept)?.get(label)?.as_str()
}

/// `child`, changed for a resource whose workload retains the selector `kept`.
#[must_use]
pub fn keeping(child: &Child, kept: &Value) -> Child {
    let mut child = child.clone();
    let (body, theirs) = (&mut child.body, labels(kept));
    let theirs = theirs.into_iter().flatten();
    if child.kind.has_pods {
        if let Some(selector) = body.pointer_mut("/spec/selector") {
            *selector = kept.clone();
        }
        if let Some(Value::Object(labels)) = body.pointer_mut("/spec/template/metadata/labels") {
            labels.extend(theirs.map(|(label, value)| (label.clone(), value.clone())));
        }
        let spread = body.pointer_mut("/spec/template/spec/topologySpreadConstraints");
        for constraint in spread.and_then(Value::as_array_mut).into_iter().flatten() {
            retain_values(constraint.pointer_mut("/labelSelector/matchLabels"), kept);
        }
    } else {
        retain_values(body.pointer_mut("/spec/selector"), kept);
    }
    child
}

/// Replaces the values of the labels in a selector with those of `kept`.
fn retain_values(selector: Option<&mut Value>, kept: &Value) {
    let selector = selector.and_then(Value::as_object_mut);
    for (label, ours) in selector.into_iter().flatten() {
        if let Some(theirs) = value(kept, label) {
            *ours = theirs.into();
        }
    }
}

fn labels(selector: &Value) -> Option<&Map<String, Value>> {
    selector.get("matchLabels")?.as_object()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{keeping, selector_of, value};
    use crate::{Child, DEPLOYMENT, SERVICE};

    fn ours() -> Value {
        json!({"app.kubernetes.io/instance": "a", "app.kubernetes.io/name": "cache"})
    }

    /// The selector of operator-sdk's scaffold, with one additional label.
    fn theirs() -> Value {
        json!({"matchLabels": {
            "app.kubernetes.io/name": "cache-operator",
            "app.kubernetes.io/managed-by": "CacheController",
            "app": "cache",
        }})
    }

    #[test]
    fn a_selector_is_kept_only_if_it_is_not_the_one_that_we_would_give() {
        let of = |selector: Value| {
            let deployment = json!({"spec": {"selector": selector}});
            selector_of(&deployment, "cache", "a").map(|kept| *kept)
        };
        assert_eq!(of(json!({"matchLabels": ours()})), None);
        assert_eq!(of(theirs()), Some(theirs()));
        let mut more = ours();
        more["app"] = json!("cache");
        let mut another = ours();
        another["app.kubernetes.io/instance"] = json!("b");
        let expression = json!([{"key": "app", "operator": "Exists"}]);
        for kept in [
            json!({"matchLabels": more}),
            json!({"matchLabels": another}),
            json!({"matchLabels": ours(), "matchExpressions": expression}),
            json!({"matchExpressions": expression}),
        ] {
            assert_eq!(of(kept.clone()), Some(kept));
        }
        assert_eq!(selector_of(&Value::Null, "cache", "a"), None);
    }

    #[test]
    fn the_pods_have_both_operators_labels_and_where_they_differ_the_selectors() {
        let child = Child {
            kind: DEPLOYMENT,
            name: "a".to_owned(),
            body: json!({"spec": {
                "selector": {"matchLabels": ours()},
                "template": {"metadata": {"labels": ours()}, "spec": {"topologySpreadConstraints": [
                    {"maxSkew": 1, "labelSelector": {"matchLabels": ours()}},
                ]}},
            }}),
        };
        let kept = keeping(&child, &theirs());
        assert_eq!(kept.body["spec"]["selector"], theirs());
        let pods = json!({
            "app": "cache",
            "app.kubernetes.io/instance": "a",
            "app.kubernetes.io/managed-by": "CacheController",
            "app.kubernetes.io/name": "cache-operator",
        });
        assert_eq!(kept.body["spec"]["template"]["metadata"]["labels"], pods);
        let spread = &kept.body["spec"]["template"]["spec"]["topologySpreadConstraints"][0];
        let selecting =
            json!({"app.kubernetes.io/instance": "a", "app.kubernetes.io/name": "cache-operator"});
        assert_eq!(spread["labelSelector"]["matchLabels"], selecting);
        assert_eq!(keeping(&kept, &theirs()), kept, "twice is once");
    }

    #[test]
    fn the_service_selects_the_pods_by_what_they_have() {
        let child = Child {
            kind: SERVICE,
            name: "a".to_owned(),
            body: json!({"spec": {"selector": ours(), "type": "ClusterIP"}}),
        };
        let kept = keeping(&child, &theirs());
        let selecting =
            json!({"app.kubernetes.io/instance": "a", "app.kubernetes.io/name": "cache-operator"});
        assert_eq!(kept.body["spec"]["selector"], selecting);
        let other = json!({"matchLabels": {"app": "cache"}});
        assert_eq!(keeping(&child, &other), child, "nothing in it differs");
    }

    #[test]
    fn the_value_of_a_label_is_that_of_the_kept_selector() {
        assert_eq!(value(&theirs(), "app"), Some("cache"));
        assert_eq!(value(&theirs(), "app.kubernetes.io/instance"), None);
        assert_eq!(value(&json!({"matchExpressions": []}), "app"), None);
    }
}
