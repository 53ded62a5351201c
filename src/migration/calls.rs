//! The requests of a migration, with the rights of the user. Each has a deadline, and is retried for a
//! while after a transient error of the API server or of the conversion webhook.

use std::time::Duration;

use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{Client, Resource as _};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::plan::{self, Definition, Rejection};
use crate::api::Kind;
use crate::api_server::{Answer, ApiRequest, Location, MERGE_PATCH, RequestError, found, retried};
use crate::config::MigrateStorage;
use crate::manager::Clients;

/// The field manager, for `managedFields` and the audit log.
const FIELD_MANAGER: &str = "quartet-operator-migrate-storage";

/// Deadline for a page: its objects are converted one by one.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);
/// Maximum number of bytes of a page: 500 objects with all the annotations that an API server accepts
/// (256 KiB) and as much again.
const MAX_PAGE: usize = 256 << 20;

/// Pauses between the attempts of one request: 18 s in all, more than a webhook's pod takes to be
/// replaced by another replica. Longer if the API server asks for it.
const PAUSES_MILLISECONDS: [u64; 7] = [250, 500, 1000, 2000, 4000, 5000, 5000];

/// Only the metadata of objects is requested: the rest can be large and is not needed.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The migration of one kind.
pub(super) struct Migration<'a> {
    pub(super) clients: &'a Clients,
    pub(super) options: &'a MigrateStorage,
    pub(super) kind: &'a Kind,
}

/// An object of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) metadata: Metadata,
}

/// The metadata that a rewrite needs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}

/// Some of the objects of a kind.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    /// An empty list has null here.
    pub(super) items: Option<Vec<Listed>>,
    pub(super) metadata: ListMeta,
}

impl Migration<'_> {
    /// The CRD; `None` if it is not installed.
    pub(super) async fn crd(&self) -> Result<Option<CustomResourceDefinition>, RequestError> {
        let name = plan::name_of(self.kind);
        let action = format!("read the CRD {name}");
        let request = ApiRequest::new(action, Method::GET, crd_path(&name));
        found(send(&self.clients.calls, &request).await)
    }

    /// Leaves only the hub version in `status.storedVersions`, if the CRD is still as in `definition`.
    pub(super) async fn trim_crd(
        &self,
        definition: &Definition,
    ) -> Result<IgnoredAny, RequestError> {
        let name = &definition.name;
        let action = format!("write status.storedVersions of the CRD {name}");
        let patch = definition.trim(self.kind);
        self.patch_status(action, &crd_path(name), &patch).await
    }

    /// The next page of objects, in the hub version, from the position `next` on; from the start if
    /// that is empty.
    pub(super) async fn page(&self, next: &str) -> Result<Page, RequestError> {
        let (kind, size) = (self.kind, self.options.page_size);
        let all = Location {
            api_version: &kind.api_version(&kind.hub),
            plural: kind.plural,
            namespace: "",
            name: "",
        };
        // The token is base64 without padding, so it needs no escaping.
        let target = format!("{}?limit={size}&continue={next}", all.collection());
        let request = ApiRequest {
            accept: METADATA_LIST,
            deadline: PAGE_DEADLINE,
            max_answer: MAX_PAGE,
            ..ApiRequest::new(format!("list {}", plan::name_of(kind)), Method::GET, target)
        };
        send(&self.clients.watches, &request).await
    }

    /// The current metadata of an object; `None` if it was deleted.
    pub(super) async fn read(&self, object: &Metadata) -> Result<Option<Listed>, RequestError> {
        let action = format!("read {}", self.name_of(object));
        let request = ApiRequest {
            accept: METADATA,
            ..ApiRequest::new(action, Method::GET, self.path(object))
        };
        match send(&self.clients.calls, &request).await {
            Err(error) if error.status().is_some_and(plan::is_gone) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Makes the API server store an object again, unchanged; returns its metadata then. Its
    /// resourceVersion stays if it was stored in the hub version already.
    pub(super) async fn store_again(&self, object: &Metadata) -> Result<Listed, RequestError> {
        // The API server rejects a negative number of replicas in any write of an object with a scale
        // subresource, even if it is already stored (apiextensions-apiserver,
        // `pkg/registry/customresource/validator.go`), and old operators stored such objects. A write of
        // the status also stores the whole object, changes nothing else, and does not validate the spec.
        let patch = plan::rewrite(&object.uid, &object.resource_version);
        let action = format!("rewrite {}", self.name_of(object));
        self.patch_status(action, &self.path(object), &patch).await
    }

    async fn patch_status<T: DeserializeOwned>(
        &self,
        action: String,
        path: &str,
        patch: &Value,
    ) -> Result<T, RequestError> {
        let target = format!("{path}/status?fieldManager={FIELD_MANAGER}");
        let request = ApiRequest {
            accept: METADATA,
            content_type: MERGE_PATCH,
            body: Some(&patch.to_string()),
            ..ApiRequest::new(action, Method::PATCH, target)
        };
        send(&self.clients.calls, &request).await
    }

    /// The kind, the namespace and the name of an object, for messages.
    pub(super) fn name_of(&self, object: &Metadata) -> String {
        let (kind, namespace) = (self.kind.kind, &object.namespace);
        format!("{kind} {namespace}/{}", object.name)
    }

    fn path(&self, object: &Metadata) -> String {
        let at = Location {
            api_version: &self.kind.api_version(&self.kind.hub),
            plural: self.kind.plural,
            namespace: &object.namespace,
            name: &object.name,
        };
        at.path()
    }
}

/// Sends a request, and again after a transient error.
async fn send<T: DeserializeOwned>(
    client: &Client,
    request: &ApiRequest<'_>,
) -> Result<T, RequestError> {
    let pauses = PAUSES_MILLISECONDS.map(Duration::from_millis);
    let send = || async { request.send(client).await.and_then(Answer::object) };
    retried(pauses, is_transient, send).await
}

fn is_transient(error: &RequestError) -> bool {
    let rejection = error.status().map(plan::classify);
    rejection.is_none_or(|rejection| rejection == Rejection::Transient)
}

fn crd_path(name: &str) -> String {
    format!("{}/{name}", CustomResourceDefinition::url_path(&(), None))
}
