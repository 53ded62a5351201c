//! The metadata that our own objects share. Data only.

use serde_json::{Value, json};

use super::names::PROJECT;

/// The label of the kubebuilder scaffold that only the manager's pods and what belongs to them
/// have; the pods are selected by it.
pub(super) const COMPONENT: (&str, &str) = ("control-plane", "controller-manager");

/// Metadata of the object `name`, in `namespace` if it is in one.
pub(super) fn metadata(name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({ "name": name, "labels": labels() });
    if let (Some(namespace), Some(fields)) = (namespace, metadata.as_object_mut()) {
        fields.insert("namespace".to_owned(), namespace.into());
    }
    metadata
}

/// The labels of every object.
pub(super) fn labels() -> Value {
    json!({
        "app.kubernetes.io/name": PROJECT,
        "app.kubernetes.io/managed-by": "kustomize",
    })
}

/// The labels of what belongs to the manager's pods.
pub(super) fn component_labels() -> Value {
    let mut labels = labels();
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(COMPONENT.0.to_owned(), COMPONENT.1.into());
    }
    labels
}

/// What selects the manager's pods.
pub(super) fn selector() -> Value {
    json!({
        "app.kubernetes.io/name": PROJECT,
        COMPONENT.0: COMPONENT.1,
    })
}
