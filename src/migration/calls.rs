//! The requests of a migration, each with a deadline, and repeated for a while when the API
//! server or the conversion webhook behind it is away for a moment.

use std::time::Duration;

use http::{Method, Request, header};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::time::{sleep, timeout};

use super::plan::{self, Definition, Refusal};
use crate::api::Kind;
use crate::manager::Clients;

/// Who wrote, in `managedFields` and in the audit log.
const FIELD_MANAGER: &str = "quartet-operator-migrate-storage";

/// Longest wait for the answer to a single read or write.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait for a page: its objects are converted one by one.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);

/// Waits between the tries of one request: 18 s in all, more than a webhook's pod takes to be
/// replaced by another replica.
const WAITS_MILLISECONDS: [u64; 7] = [250, 500, 1000, 2000, 4000, 5000, 5000];

/// Of an object only its metadata is asked for: the rest can be large and is not needed.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Why a request brought no answer that helps.
#[derive(Debug, Error)]
pub enum CallError {
    /// The API server answered with an error.
    #[error("cannot {action}: {}", status.message)]
    Refused {
        /// What was being done to what.
        action: String,
        /// The answer.
        status: Box<Status>,
    },
    /// There was no answer within the deadline.
    #[error("cannot {action}: no answer within {} s", deadline.as_secs())]
    Timeout {
        /// What was being done to what.
        action: String,
        /// How long was waited.
        deadline: Duration,
    },
    /// The request could not be made, or its answer not be read.
    #[error("cannot {action}")]
    Transport {
        /// What was being done to what.
        action: String,
        /// Why.
        source: Box<kube::Error>,
    },
}

impl CallError {
    /// The API server's answer, if there was one.
    pub(super) fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            Self::Timeout { .. } | Self::Transport { .. } => None,
        }
    }

    fn is_passing(&self) -> bool {
        self.status()
            .is_none_or(|status| plan::refusal(status) == Refusal::Passing)
    }
}

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

/// One request: what it does, and how.
struct Call<'a> {
    action: String,
    method: Method,
    target: String,
    accept: &'static str,
    body: Option<&'a Value>,
    deadline: Duration,
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
    ) -> Result<Option<CustomResourceDefinition>, CallError> {
        let name = plan::name_of(kind);
        let call = Call {
            action: format!("read the CRD {name}"),
            method: Method::GET,
            target: definition_path(&name),
            accept: JSON,
            body: None,
            deadline: CALL_DEADLINE,
        };
        found(self.send(&self.single, &call).await)
    }

    /// Leaves the hub version alone in `status.storedVersions`, if the CRD still is what
    /// `definition` says.
    pub(super) async fn trim(&self, kind: &Kind, definition: &Definition) -> Result<(), CallError> {
        let name = &definition.name;
        let call = Call {
            action: format!("write status.storedVersions of the CRD {name}"),
            method: Method::PATCH,
            target: format!(
                "{}/status?fieldManager={FIELD_MANAGER}",
                definition_path(name)
            ),
            accept: JSON,
            body: Some(&definition.trim(kind)),
            deadline: CALL_DEADLINE,
        };
        let _: CustomResourceDefinition = self.send(&self.single, &call).await?;
        Ok(())
    }

    /// At most `size` objects of a kind, in its hub version, from the position `next` on;
    /// from the start if that is empty.
    pub(super) async fn page(&self, kind: &Kind, size: u32, next: &str) -> Result<Page, CallError> {
        let api = kind.api_version(&kind.hub);
        // The token is base64 without padding: nothing in it needs escaping.
        let call = Call {
            action: format!("list {}", plan::name_of(kind)),
            method: Method::GET,
            target: format!("/apis/{api}/{}?limit={size}&continue={next}", kind.plural),
            accept: METADATA_LIST,
            body: None,
            deadline: PAGE_DEADLINE,
        };
        self.send(&self.lists, &call).await
    }

    /// An object as it is now; `None` if it is gone.
    pub(super) async fn read(
        &self,
        kind: &Kind,
        object: &Metadata,
    ) -> Result<Option<Listed>, CallError> {
        let call = Call {
            action: action("read", kind, object),
            method: Method::GET,
            target: path(kind, object),
            accept: METADATA,
            body: None,
            deadline: CALL_DEADLINE,
        };
        found(self.send(&self.single, &call).await)
    }

    /// Has the API server store an object anew, unchanged; returns it as it is then. Its
    /// resourceVersion stays if it was stored in the hub version already.
    pub(super) async fn rewrite(
        &self,
        kind: &Kind,
        object: &Metadata,
    ) -> Result<Metadata, CallError> {
        let call = Call {
            action: action("rewrite", kind, object),
            method: Method::PATCH,
            // The API server refuses a negative number of replicas in any write of an object
            // with a scale subresource, even if it is the one that is stored
            // (apiextensions-apiserver, `pkg/registry/customresource/validator.go`), and old
            // operators let them be stored. A write of the status stores the whole object,
            // too, can change nothing else, and is not asked about the spec.
            target: format!("{}/status?fieldManager={FIELD_MANAGER}", path(kind, object)),
            accept: METADATA,
            body: Some(&plan::rewrite(&object.uid, &object.resource_version)),
            deadline: CALL_DEADLINE,
        };
        let answer: Listed = self.send(&self.single, &call).await?;
        Ok(answer.metadata)
    }

    /// Sends a request, and again while what hinders it may pass.
    async fn send<T: DeserializeOwned>(
        &self,
        client: &Client,
        call: &Call<'_>,
    ) -> Result<T, CallError> {
        for wait in WAITS_MILLISECONDS {
            match send_once(client, call).await {
                Err(error) if error.is_passing() => sleep(Duration::from_millis(wait)).await,
                result => return result,
            }
        }
        send_once(client, call).await
    }
}

async fn send_once<T: DeserializeOwned>(client: &Client, call: &Call<'_>) -> Result<T, CallError> {
    let action = || call.action.clone();
    let transport = |source: kube::Error| CallError::Transport {
        action: action(),
        source: Box::new(source),
    };
    let body = call.body.map(|body| body.to_string().into_bytes());
    let request = Request::builder()
        .method(call.method.clone())
        .uri(&call.target)
        .header(header::ACCEPT, call.accept)
        .header(header::CONTENT_TYPE, MERGE_PATCH)
        .body(body.unwrap_or_default())
        .map_err(|error| transport(kube::Error::HttpError(error)))?;
    match timeout(call.deadline, client.request(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(CallError::Refused {
            action: action(),
            status,
        }),
        Ok(Err(source)) => Err(transport(source)),
        Err(_elapsed) => Err(CallError::Timeout {
            action: action(),
            deadline: call.deadline,
        }),
    }
}

fn found<T>(result: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.status().is_some_and(|status| status.code == 404) => Ok(None),
        Err(error) => Err(error),
    }
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
