//! What `restricted-v2` of OpenShift refuses of the rendered pods, as docs/support.md says. Other tests run them
//! under the Pod Security Standard, which is the rest of it.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::rendered::{documents, overlay, repository};
use crate::{BESIDE, WHOLE, chart};

/// Fields that the namespace assigns, and volumes that are not allowed.
const REFUSED: [&str; 5] = ["runAsUser", "fsGroup", "seLinuxOptions", "hostPath", "nfs"];

/// The fields of a pod that are refused, whatever ids the namespace has.
fn refused(part: &Value, found: &mut BTreeSet<String>) {
    for (name, member) in part.as_object().into_iter().flatten() {
        let is_added = name == "add" && *member != json!(["NET_BIND_SERVICE"]);
        found.extend((is_added || REFUSED.contains(&&**name)).then(|| name.clone()));
        refused(member, found);
    }
    for item in part.as_array().into_iter().flatten() {
        refused(item, found);
    }
}

#[test]
fn the_manager_runs_with_any_user_id_and_the_pods_of_the_kinds_with_theirs() {
    let overlays = WHOLE.into_iter().chain(BESIDE);
    let mut rendered: Vec<_> = overlays.chain(["olm", "olm-v1"]).map(overlay).collect();
    rendered.extend(chart::modes().map(|(_, values)| chart::chart(&values)));
    let managers = rendered.len();
    // The children of every kind, in both versions and with every field.
    for file in fs::read_dir(repository().join("src/tests/workload/testdata")).expect("files") {
        let path = file.expect("a file").path();
        // Pods of other charts.
        if !path.ends_with("charts.yaml") {
            rendered.push(documents(&path));
        }
    }
    let mut pods = 0;
    for (index, objects) in rendered.iter().enumerate() {
        let templates = objects
            .iter()
            .filter_map(|it| it.pointer("/spec/template/spec"));
        for pod in templates.filter(|it| it["containers"].is_array()) {
            let mut found = BTreeSet::new();
            refused(pod, &mut found);
            let expected: &[&str] = match pod["securityContext"]["runAsNonRoot"] == true {
                _ if index < managers => &[],
                true => &["runAsUser"],
                // `podSecurity: Baseline`
                false => &["add"],
            };
            assert!(found.iter().eq(expected), "{found:?}: {pod:#}");
            pods += 1;
        }
    }
    assert!(pods >= 20, "{pods}");
}
