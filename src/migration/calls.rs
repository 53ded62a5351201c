//! The requests of a migration, each with a deadline, and repeated for a while when the API
//! server or the conversion webhook behind it is away for a moment.

use std::time::Duration;

use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::plan::{self, Definition, Refusal};
use crate::api::Kind;
use crate::api_server::{Answer, ApiRequest, MERGE_PATCH, RequestError, found};
use crate::manager::Clients;

/// Who wrote, in `managedFields` and in the audit log.
const FIELD_MANAGER: &str = "quartet-operator-migrate-storage";

/// Longest wait for a page: its objects are converted one by one.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);
/// Maximum number of bytes of a page: 500 objects with all the annotations that an API server accepts
/// (256 KiB) and as much again.
const MAX_PAGE: usize = 256 << 20;

/// Waits between the tries of one request: 18 s in all, more than a webhook's pod takes to be
/// replaced by another replica.
const WAITS_MILLISECONDS: [u64; 7] = [250, 500, 1000, 2000, 4000, 5000, 5000];

/// Of an object only its metadata is asked for: the rest can be large and is not needed.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// An object of which a list told.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Listed {
    pub(super) metadata: Metadata,
}

/// The metadata that a rewrite needs.
#[derive(Debug, Clone, Deserialize)]
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
    items: Option<Vec<Listed>>,
    pub(super) metadata: Position,
}

impl Page {
    /// The objects of this page.
    pub(super) fn take_items(&mut self) -> Vec<Listed> {
        self.items.take().unwrap_or_default()
    }
}

/// How far a list has come.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Position {
    /// Asks for the next page; empty on the last.
    #[serde(rename = "continue", default)]
    pub(super) next: String,
    /// About how many objects follow after this page.
    #[serde(default)]
    pub(super) remaining_item_count: Option<u64>,
}

/// The requests, made with the rights of the user.
pub(super) struct Calls {
    single: Client,
    lists: Client,
}

impl Calls {
    /// Requests to the cluster of `clients`.
    pub(super) fn new(clients: &Clients) -> Self {
        Self {
            single: clients.calls.clone(),
            lists: clients.watches.clone(),
        }
    }

    /// The CRD of a kind; `None` if it is not installed.
    pub(super) async fn definition(
        &self,
        kind: &Kind,
    ) -> Result<Option<CustomResourceDefinition>, RequestError> {
        let name = plan::name_of(kind);
        let action = format!("read the CRD {name}");
        let request = ApiRequest::new(action, Method::GET, definition_path(&name));
        found(self.send(&self.single, &request).await)
    }

    /// Leaves the hub version alone in `status.storedVersions`, if the CRD still is what
    /// `definition` says.
    pub(super) async fn trim(
        &self,
        kind: &Kind,
        definition: &Definition,
    ) -> Result<(), RequestError> {
        let name = &definition.name;
        let action = format!("write status.storedVersions of the CRD {name}");
        let target = definition_path(name);
        let target = format!("{target}/status?fieldManager={FIELD_MANAGER}");
        let body = definition.trim(kind);
        let request = ApiRequest {
            content_type: MERGE_PATCH,
            body: Some(&body.to_string()),
            ..ApiRequest::new(action, Method::PATCH, target)
        };
        let _: CustomResourceDefinition = self.send(&self.single, &request).await?;
        Ok(())
    }

    /// At most `size` objects of a kind, in its hub version, from the position `next` on;
    /// from the start if that is empty.
    pub(super) async fn page(
        &self,
        kind: &Kind,
        size: u32,
        next: &str,
    ) -> Result<Page, RequestError> {
        let api = kind.api_version(&kind.hub);
        // The token is base64 without padding: nothing in it needs escaping.
        let target = format!("/apis/{api}/{}?limit={size}&continue={next}", kind.plural);
        let request = ApiRequest {
            accept: METADATA_LIST,
            deadline: PAGE_DEADLINE,
            max_answer: MAX_PAGE,
            ..ApiRequest::new(format!("list {}", plan::name_of(kind)), Method::GET, target)
        };
        self.send(&self.lists, &request).await
    }

    /// An object as it is now; `None` if it is gone.
    pub(super) async fn read(
        &self,
        kind: &Kind,
        object: &Metadata,
    ) -> Result<Option<Listed>, RequestError> {
        let request = ApiRequest {
            accept: METADATA,
            ..ApiRequest::new(
                action("read", kind, object),
                Method::GET,
                path(kind, object),
            )
        };
        found(self.send(&self.single, &request).await)
    }

    /// Has the API server store an object anew, unchanged; returns it as it is then. Its
    /// resourceVersion stays if it was stored in the hub version already.
    pub(super) async fn rewrite(
        &self,
        kind: &Kind,
        object: &Metadata,
    ) -> Result<Metadata, RequestError> {
        // The API server refuses a negative number of replicas in any write of an object
        // with a scale subresource, even if it is the one that is stored
        // (apiextensions-apiserver, `pkg/registry/customresource/validator.go`), and old
        // operators let them be stored. A write of the status stores the whole object,
        // too, can change nothing else, and is not asked about the spec.
        let target = format!("{}/status?fieldManager={FIELD_MANAGER}", path(kind, object));
        let body = plan::rewrite(&object.uid, &object.resource_version);
        let request = ApiRequest {
            accept: METADATA,
            content_type: MERGE_PATCH,
            body: Some(&body.to_string()),
            ..ApiRequest::new(action("rewrite", kind, object), Method::PATCH, target)
        };
        let answer: Listed = self.send(&self.single, &request).await?;
        Ok(answer.metadata)
    }

    /// Sends a request, and again after a transient error.
    async fn send<T: DeserializeOwned>(
        &self,
        client: &Client,
        request: &ApiRequest<'_>,
    ) -> Result<T, RequestError> {
        let send = async || request.send(client).await.and_then(Answer::object);
        for wait in WAITS_MILLISECONDS {
            match send().await {
                Err(error) if is_transient(&error) => sleep(Duration::from_millis(wait)).await,
                result => return result,
            }
        }
        send().await
    }
}

/// Whether the same request may succeed a moment later.
fn is_transient(error: &RequestError) -> bool {
    error
        .status()
        .is_none_or(|status| plan::refusal(status) == Refusal::Passing)
}

fn definition_path(name: &str) -> String {
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}

fn path(kind: &Kind, object: &Metadata) -> String {
    format!(
        "/apis/{}/namespaces/{}/{}/{}",
        kind.api_version(&kind.hub),
        object.namespace,
        kind.plural,
        object.name
    )
}

fn action(verb: &str, kind: &Kind, object: &Metadata) -> String {
    format!("{verb} {} {}/{}", kind.kind, object.namespace, object.name)
}
