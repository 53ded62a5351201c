//! `--webhook-url`: a manager outside the cluster (`make run`, `make demo`) registers a URL with the
//! API server while it runs, with a certificate made in memory, and then restores what it replaced.
//! The API server must be on this machine, or the flag that forces it set: on a shared cluster the
//! objects of all users would depend on one developer's machine.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::calls;
use super::issue::issue;
use super::metrics::Metrics;
use super::objects::Registered;
use super::resolver::{Resolver, Source};
use super::retry::LastError;
use super::url_form::{Restored, UrlForm};
use super::webhook_url::{WebhookUrl, is_on_loopback};
use crate::api_server::RequestError;
use crate::error_report::error_report;

/// Poll interval while a CRD does not exist yet.
const RETRY: Duration = Duration::from_secs(2);
/// Poll interval after the registration: `make install` may have replaced it.
const RECHECK: Duration = Duration::from_secs(30);

/// The URL and the objects to register it in.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The URL at which the API server calls this process.
    pub url: WebhookUrl,
    /// Register even if the API server is not on this machine.
    pub force: bool,
    /// The URL of the API server.
    pub server: String,
    /// The packaged webhook configuration; the URL replaces its Services.
    pub webhook_configuration: ValidatingWebhookConfiguration,
    /// The packaged CRDs. Only the conversion of an installed CRD is changed.
    pub crds: Vec<CustomResourceDefinition>,
}

/// Why the URL is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The API server is on another machine.
    #[error(
        "--webhook-url: the API server at {0} is not on this machine; all its users would depend \
         on this process. Pass --webhook-url-force if that is what you want"
    )]
    NotOnLoopback(String),
    /// No certificate can be created for the URL's host.
    #[error("--webhook-url: no certificate for {host}")]
    Certificate {
        /// The host.
        host: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A packaged object has no JSON form.
    #[error("--webhook-url: a packaged object has no JSON form")]
    Packaged(#[from] serde_json::Error),
}

/// Serves a certificate for the URL, valid for 90 days, and registers the URL until `stop` completes.
/// Then restores the objects and returns. `client` must not retry requests.
///
/// # Errors
/// [`RegistrationError`], before anything is changed.
pub fn registered(
    options: Registration,
    client: Client,
    metrics: Metrics,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Source, RegistrationError> {
    if !options.force && !is_on_loopback(&options.server) {
        return Err(RegistrationError::NotOnLoopback(options.server));
    }
    let host = options.url.host().to_owned();
    let identity = match issue(std::slice::from_ref(&host), Timestamp::now()) {
        Ok(identity) => identity,
        Err(error) => {
            let source = error.into();
            return Err(RegistrationError::Certificate { host, source });
        }
    };
    let resolver = Resolver::new(metrics);
    resolver.install(identity.pair.clone());
    let bundle = ByteString(identity.authority.to_pem().into_bytes());
    let forms = forms(options, &json!(bundle))?;
    let run = async move {
        let stopping = CancellationToken::new();
        // All objects at once, since the time to stop is short.
        let all = join_all(forms.iter().map(async |form| {
            keep_in_place(&client, form, &stopping).await;
            take_out(&client, form).await;
        }));
        let stop = async {
            stop.await;
            stopping.cancel();
        };
        tokio::join!(all, stop);
        Ok(())
    };
    Ok((resolver, run.boxed()))
}

fn forms(options: Registration, bundle: &Value) -> Result<Vec<UrlForm>, serde_json::Error> {
    let form = |registered, packaged| UrlForm::new(registered, packaged, &options.url, bundle);
    let configuration = options.webhook_configuration;
    let name = configuration.metadata.name.clone().unwrap_or_default();
    let packaged = serde_json::to_value(configuration)?;
    let mut forms = vec![form(Registered::Validating(name), packaged)];
    for crd in options.crds {
        let name = crd.metadata.name.clone().unwrap_or_default();
        forms.push(form(
            Registered::Converted(name),
            serde_json::to_value(crd)?,
        ));
    }
    Ok(forms)
}

/// Keeps the URL in the object until `stopping`. A request that is running then ends first: the API server
/// may commit it after the object was restored.
async fn keep_in_place(client: &Client, form: &UrlForm, stopping: &CancellationToken) {
    let mut last_error = LastError::default();
    while !stopping.is_cancelled() {
        let put = put(client, form).await;
        let pause = if matches!(put, Ok(true)) {
            RECHECK
        } else {
            RETRY
        };
        match put {
            Ok(_) => last_error.clear(),
            Err(error) if error.is_conflict() => {}
            Err(error) => last_error.warn(&error, "cannot register the webhook URL"),
        }
        // Elapsed: the next check is due.
        let _ = timeout(pause, stopping.cancelled()).await;
    }
}

/// Writes the URL into the object; returns whether the object exists.
async fn put(client: &Client, form: &UrlForm) -> Result<bool, RequestError> {
    let at = form.registered.object_ref();
    let found = calls::get(client, &at).await?.0;
    let exists = found.is_some();
    let Some(object) = found.map_or_else(|| form.fresh(), |it| form.put_into(it)) else {
        return Ok(exists);
    };
    calls::write(client, &at, &object, exists).await?;
    let object = at.name;
    tracing::info!(object, "the API server now calls the webhook URL");
    Ok(true)
}

async fn take_out(client: &Client, form: &UrlForm) {
    let mut outcome = restore(client, form).await;
    // A conflict, e.g. with the API server's write of a CRD's conditions.
    if matches!(&outcome, Err(error) if error.is_conflict()) {
        outcome = restore(client, form).await;
    }
    if let Err(error) = outcome {
        let (object, error) = (form.registered.object_ref().name, error_report(&error));
        let message = "cannot restore the original webhook configuration";
        tracing::error!(object, error, "{message}");
    }
}

async fn restore(client: &Client, form: &UrlForm) -> Result<(), RequestError> {
    let at = form.registered.object_ref();
    let Some(object) = calls::get(client, &at).await?.0 else {
        return Ok(());
    };
    match form.take_out_of(object.clone()) {
        Restored::Nothing => return Ok(()),
        Restored::Replace(object) => calls::write(client, &at, &object, true).await?,
        Restored::Delete => calls::delete(client, &at, &object).await?,
    };
    let object = at.name;
    tracing::info!(object, "restored the original webhook configuration");
    Ok(())
}
