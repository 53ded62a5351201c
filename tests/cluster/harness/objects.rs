//! The objects of a stage, as a user or another component reads and writes them.

use serde_json::{Value, json};

use super::{Kind, Stage, api};

impl Stage {
    /// Server-side apply, as `kubectl apply --server-side --force-conflicts`.
    pub(crate) async fn apply(&self, object: &Value) -> Result<Value, kube::core::Status> {
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        let plural = if kind == "nginx" {
            "nginxes".to_owned()
        } else {
            format!("{kind}s")
        };
        let api_version = object["apiVersion"].as_str().expect("an apiVersion");
        let root = if api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let name = object["metadata"]["name"].as_str().expect("a name");
        let target = format!(
            "/{root}/{api_version}/namespaces/{}/{plural}/{name}?fieldManager=user&force=true",
            self.namespace
        );
        self.send(
            http::Method::PATCH,
            &target,
            "application/apply-patch+yaml",
            object,
        )
        .await
    }

    /// As [`Stage::apply`], of an object of the admission API that has no namespace; it goes
    /// with the cluster.
    pub(crate) async fn apply_cluster_wide(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let target = format!(
            "/apis/admissionregistration.k8s.io/v1/{plural}/{name}?fieldManager=user&force=true"
        );
        self.send(
            http::Method::PATCH,
            &target,
            "application/apply-patch+yaml",
            object,
        )
        .await
        .expect("applied");
    }

    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let answer = self
            .send(http::Method::GET, &self.path(kind, name), "", &Value::Null)
            .await;
        match answer {
            Ok(object) => Some(object),
            Err(status) if status.code == 404 => None,
            Err(status) => panic!("get {} {name}: {status:?}", kind.plural),
        }
    }

    pub(crate) async fn list(&self, kind: Kind) -> Vec<Value> {
        let answer = self
            .send(http::Method::GET, &self.path(kind, ""), "", &Value::Null)
            .await;
        answer.expect("a list")["items"]
            .as_array()
            .expect("items")
            .clone()
    }

    /// A merge patch, as `kubectl patch --type=merge` or an edit by hand.
    pub(crate) async fn patch(
        &self,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> Result<Value, kube::core::Status> {
        let target = format!("{}?fieldManager=by-hand", self.path(kind, name));
        self.send(
            http::Method::PATCH,
            &target,
            "application/merge-patch+json",
            &patch,
        )
        .await
    }

    /// A JSON patch, for what a merge patch cannot say.
    pub(crate) async fn json_patch(
        &self,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> Result<Value, kube::core::Status> {
        let target = format!("{}?fieldManager=by-hand", self.path(kind, name));
        self.send(
            http::Method::PATCH,
            &target,
            "application/json-patch+json",
            &patch,
        )
        .await
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        let path = self.path(kind, name);
        self.send(
            http::Method::DELETE,
            &path,
            "application/json",
            &Value::Null,
        )
        .await
        .expect("a deletion");
    }

    /// As [`Stage::delete`], with `DeleteOptions`.
    pub(crate) async fn delete_with(&self, kind: Kind, name: &str, options: Value) {
        let path = self.path(kind, name);
        self.send(http::Method::DELETE, &path, "application/json", &options)
            .await
            .expect("a deletion");
    }

    /// A strategic or merge patch of the status, as a component other than ours writes it.
    pub(crate) async fn patch_status(&self, kind: Kind, name: &str, patch: Value) -> Value {
        let target = format!("{}/status?fieldManager=by-hand", self.path(kind, name));
        let own = kind.api_version.contains('.');
        let form = if own {
            "application/merge-patch+json"
        } else {
            "application/strategic-merge-patch+json"
        };
        self.send(http::Method::PATCH, &target, form, &patch)
            .await
            .expect("a patched status")
    }

    /// `kubectl scale`.
    pub(crate) async fn scale(
        &self,
        kind: Kind,
        name: &str,
        replicas: i64,
    ) -> Result<Value, kube::core::Status> {
        let target = format!("{}/scale", self.path(kind, name));
        let patch = json!({"spec": {"replicas": replicas}});
        self.send(
            http::Method::PATCH,
            &target,
            "application/merge-patch+json",
            &patch,
        )
        .await
    }

    fn path(&self, kind: Kind, name: &str) -> String {
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

    /// Any request; `body` may be null.
    pub(crate) async fn send(
        &self,
        method: http::Method,
        target: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, kube::core::Status> {
        api::answer(&self.client, &method, target, content_type, body).await
    }
}
