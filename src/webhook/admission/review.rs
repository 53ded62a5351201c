//! `admission.k8s.io/v1` AdmissionReview: the fields that are read, and those of the response. Objects
//! are not parsed.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::api::raw::{Structured, Text};
use crate::webhook::answer::Status;

pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
pub(super) const KIND: &str = "AdmissionReview";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionReview<'a> {
    #[serde(borrow)]
    pub(super) api_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) request: Option<Structured<Request<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    #[serde(borrow)]
    pub(super) operation: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) sub_resource: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) old_object: Option<&'a RawValue>,
}

/// The operation on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(super) fn of(name: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnsweredReview<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

impl<'a> AnsweredReview<'a> {
    pub(super) fn of(response: Response<'a>) -> Self {
        Self {
            api_version: API_VERSION,
            kind: KIND,
            response,
        }
    }
}

impl<'a> Response<'a> {
    pub(super) fn allowed(uid: &'a str) -> Self {
        Self {
            uid,
            allowed: true,
            status: None,
            warnings: Vec::new(),
        }
    }

    pub(super) fn refuse(&mut self, status: Status) {
        self.allowed = false;
        self.status = Some(status);
    }
}
