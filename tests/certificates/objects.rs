//! The objects of a test environment: those that make a Service lead to this process, and those
//! that refer to the Service.

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::environment::TestEnv;

pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

pub(crate) fn secret() -> ApiResource {
    resource("", "v1", "Secret", "secrets")
}

pub(crate) fn crd() -> ApiResource {
    resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
}

pub(crate) fn validating() -> ApiResource {
    resource(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )
}

impl TestEnv {
    pub(crate) fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    pub(crate) fn crd_name(&self) -> String {
        format!("things.{}", self.group())
    }

    pub(crate) fn client_config(&self, path: &str) -> Value {
        json!({"service": {"namespace": self.name, "name": "webhook", "path": path, "port": 443}})
    }

    pub(crate) fn crd(&self) -> Value {
        let version = |name: &str, storage: bool| {
            json!({
                "name": name, "served": true, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name()},
            "spec": {
                "group": self.group(), "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [version("v1", true), version("v2", false)],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "clientConfig": self.client_config("/convert"),
                    "conversionReviewVersions": ["v1"],
                }},
            },
        })
    }

    pub(crate) fn validating(&self) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [{
                "name": "configmaps.example.com",
                "clientConfig": self.client_config("/validate"),
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}},
                "sideEffects": "None", "failurePolicy": "Fail", "admissionReviewVersions": ["v1"],
            }],
        })
    }

    pub(crate) async fn create_objects(&self) {
        let name = &self.name;
        let rbac = "rbac.authorization.k8s.io";
        let subject = json!([{"kind": "ServiceAccount", "name": "manager", "namespace": name}]);
        let own = ["get", "list", "watch", "update"];
        let objects = [
            (
                resource("", "v1", "Namespace", "namespaces"),
                false,
                json!({}),
            ),
            (
                resource("", "v1", "Service", "services"),
                true,
                json!({"spec": {"ports": [{"name": "https", "port": 443}]}}),
            ),
            (
                resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
                true,
                json!({
                    "addressType": "IPv4",
                    "endpoints": [{"addresses": [testkit::own_address()]}],
                    "ports": [{"name": "https", "port": self.port}],
                }),
            ),
            (
                resource(rbac, "v1", "Role", "roles"),
                true,
                json!({"rules": [
                    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
                    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["cert"], "verbs": own},
                ]}),
            ),
            (
                resource(rbac, "v1", "RoleBinding", "rolebindings"),
                true,
                json!({"roleRef": {"apiGroup": rbac, "kind": "Role", "name": "webhook"}, "subjects": subject}),
            ),
            (
                resource(rbac, "v1", "ClusterRole", "clusterroles"),
                false,
                json!({"rules": [
                    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                     "resourceNames": [self.crd_name()], "verbs": own},
                    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"],
                     "resourceNames": [name], "verbs": own},
                ]}),
            ),
            (
                resource(rbac, "v1", "ClusterRoleBinding", "clusterrolebindings"),
                false,
                json!({"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name}, "subjects": subject}),
            ),
        ];
        for (resource, namespaced, mut object) in objects {
            let own_name = if namespaced { "webhook" } else { name };
            object["apiVersion"] = json!(resource.api_version);
            object["kind"] = json!(resource.kind);
            object["metadata"] = json!({
                "name": own_name,
                "labels": {"kubernetes.io/service-name": "webhook"},
            });
            let api: Api<DynamicObject> = match namespaced {
                true => Api::namespaced_with(self.admin.clone(), name, &resource),
                false => Api::all_with(self.admin.clone(), &resource),
            };
            create(&api, object).await;
        }
    }

    pub(crate) async fn install_crd(&self) {
        create(&Api::all_with(self.admin.clone(), &crd()), self.crd()).await;
    }

    pub(crate) async fn install_validating(&self) {
        create(
            &Api::all_with(self.admin.clone(), &validating()),
            self.validating(),
        )
        .await;
    }

    pub(crate) fn things(&self, version: &str) -> Api<DynamicObject> {
        let things = resource(&self.group(), version, "Thing", "things");
        Api::namespaced_with(self.admin.clone(), &self.name, &things)
    }
}

pub(crate) async fn create(api: &Api<DynamicObject>, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}
