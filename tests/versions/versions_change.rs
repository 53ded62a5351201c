//! A manifest that changes its version under server-side apply, with one field manager, as tools that
//! apply manifests do when their user moves to the new version, or back.

use quartet_operator::packaging::{kinds, sample};
use serde_json::json;

use crate::environment::{collection, path};
use crate::shared::BOTH_VERSIONS;
use crate::webhooks::number_of_pods;

const NAMESPACE: &str = "version-changes";
/// Field managers of kubectl, Helm, Flux and Argo CD.
const MANAGERS: [&str; 4] = [
    "kubectl",
    "helm",
    "kustomize-controller",
    "argocd-controller",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_manifest_changes_its_version_under_server_side_apply_with_labels_and_annotations() {
    let env = BOTH_VERSIONS.test_env().await;
    env.create_namespace(NAMESPACE).await;
    let (labels, annotations) = (json!({"team": "a"}), json!({"example.com/note": "b"}));
    for kind in kinds() {
        for (first, then) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            for manager in MANAGERS {
                for (has_labels, has_annotations) in
                    [(true, false), (false, true), (true, true), (false, false)]
                {
                    let name = format!("a{has_labels}{has_annotations}");
                    for version in [first, then] {
                        let mut manifest = sample::sample(kind, version).expect("a sample");
                        let mut metadata = json!({"name": name});
                        if has_labels {
                            metadata["labels"] = labels.clone();
                        }
                        if has_annotations {
                            metadata["annotations"] = annotations.clone();
                        }
                        manifest["metadata"] = metadata;
                        let own = path(kind, version, NAMESPACE, &name);
                        let target = format!("{own}?fieldManager={manager}");
                        let applied = env.apply(&target, &manifest).await;
                        let context = format!("{manager}: {manifest}");
                        let mut applied = applied.unwrap_or_else(|it| panic!("{context}: {it:?}"));
                        let wanted = number_of_pods(&mut manifest, version).clone();
                        assert_eq!(*number_of_pods(&mut applied, version), wanted, "{context}");
                        let metadata = &applied["metadata"];
                        let found = metadata["labels"] == labels;
                        assert_eq!(found, has_labels, "{context}: {metadata}");
                        let note = &metadata["annotations"]["example.com/note"];
                        assert_eq!(note.is_string(), has_annotations, "{context}: {metadata}");
                    }
                }
                env.delete(&collection(kind, then, NAMESPACE))
                    .await
                    .expect("deleted");
            }
        }
    }
}
