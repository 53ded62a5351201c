//! The objects of a test environment, as a user or another component reads and writes them.

use serde_json::{Value, json};

use crate::{Answer, Kind, TestEnv};

impl TestEnv {
    /// Applies server-side, as `kubectl apply --server-side --force-conflicts`.
    ///
    /// # Errors
    /// An API error, here and below. Functions without a `Result` panic on one.
    pub async fn apply(&self, object: &Value) -> Answer {
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        let plural = match kind.as_str() {
            "nginx" => "nginxes".to_owned(),
            _ => format!("{kind}s"),
        };
        let api_version = object["apiVersion"].as_str().expect("an apiVersion");
        let root = if api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let name = object["metadata"]["name"].as_str().expect("a name");
        let path = format!(
            "/{root}/{api_version}/namespaces/{}/{plural}/{name}?fieldManager=user&force=true",
            self.namespace
        );
        self.api.apply(&path, object).await
    }

    /// Like [`TestEnv::apply`], for an object of the admission API, which is cluster-scoped; it is
    /// deleted with the cluster.
    pub async fn apply_cluster_wide(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/{plural}/{name}?fieldManager=user&force=true"
        );
        self.api.apply(&path, object).await.expect("applied");
    }

    /// Reads an object, if it exists.
    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        match self.api.get(&self.path(kind, name)).await {
            Ok(object) => Some(object),
            Err(status) if status.code == 404 => None,
            Err(status) => panic!("get {} {name}: {status:?}", kind.plural),
        }
    }

    /// Lists all objects of a kind.
    pub async fn list(&self, kind: Kind) -> Vec<Value> {
        let mut list = self.api.get(&self.path(kind, "")).await.expect("a list");
        match list["items"].take() {
            Value::Array(items) => items,
            items => panic!("no list of {}: {items}", kind.plural),
        }
    }

    /// Sends a merge patch, as `kubectl patch --type=merge` or an edit by hand.
    ///
    /// # Errors
    /// As [`TestEnv::apply`].
    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) -> Answer {
        self.api.merge(&self.by_hand(kind, name), patch).await
    }

    /// Sends a JSON patch, for changes that a merge patch cannot express.
    ///
    /// # Errors
    /// As [`TestEnv::apply`].
    pub async fn json_patch(&self, kind: Kind, name: &str, patch: Value) -> Answer {
        self.api.json_patch(&self.by_hand(kind, name), &patch).await
    }

    fn by_hand(&self, kind: Kind, name: &str) -> String {
        format!("{}?fieldManager=by-hand", self.path(kind, name))
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: Kind, name: &str) {
        self.delete_with(kind, name, Value::Null).await;
    }

    /// Like [`TestEnv::delete`], with `DeleteOptions`.
    pub async fn delete_with(&self, kind: Kind, name: &str, options: Value) {
        let deleted = self.api.delete_with(&self.path(kind, name), &options).await;
        deleted.expect("a deletion");
    }

    /// Sends a strategic or merge patch of the status, as another component does.
    pub async fn patch_status(&self, kind: Kind, name: &str, patch: Value) -> Value {
        let path = format!("{}/status?fieldManager=by-hand", self.path(kind, name));
        let is_custom = kind.api_version.contains('.');
        let patched = if is_custom {
            self.api.merge(&path, patch).await
        } else {
            self.api.strategic(&path, patch).await
        };
        patched.expect("a patched status")
    }

    /// `kubectl scale`.
    ///
    /// # Errors
    /// As [`TestEnv::apply`].
    pub async fn scale(&self, kind: Kind, name: &str, replicas: i64) -> Answer {
        let path = format!("{}/scale", self.path(kind, name));
        let patch = json!({"spec": {"replicas": replicas}});
        self.api.merge(&path, patch).await
    }

    /// Returns the path of an object of this namespace, or of all of its kind without a name.
    pub fn path(&self, kind: Kind, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        if kind.kind == "Namespace" {
            return format!("{}/namespaces{slash}{name}", kind.api());
        }
        format!(
            "{}/namespaces/{}/{}{slash}{name}",
            kind.api(),
            self.namespace,
            kind.plural
        )
    }
}
