//! `--webhook-url`: a manager outside the cluster (`make run`, `make demo`) registers a URL with the
//! API server while it runs, with a certificate made in memory, and then restores what it replaced.
//! The API server must be on this machine, or the flag that forces it set: on a shared cluster the
//! objects of all users would depend on one developer's machine.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::calls::Calls;
use super::issue::{IssueError, issue};
use super::metrics::Metrics;
use super::objects::Registered;
use super::resolver::Resolver;
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
/// Then restores the objects and returns. `calls` must not retry requests.
///
/// # Errors
/// [`RegistrationError`], before anything is changed.
pub fn registered(
    options: Registration,
    calls: Client,
    metrics: Metrics,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<
    (
        Arc<Resolver>,
        impl Future<Output = Result<(), Infallible>> + Send + 'static,
    ),
    RegistrationError,
> {
    let Registration {
        url, force, server, ..
    } = &options;
    if !force && !is_on_loopback(server) {
        return Err(RegistrationError::NotOnLoopback(server.clone()));
    }
    let host = url.host().to_owned();
    let identity =
        issue(std::slice::from_ref(&host), Timestamp::now()).map_err(|source: IssueError| {
            RegistrationError::Certificate {
                host,
                source: Box::new(source),
            }
        })?;
    let resolver = Resolver::new(metrics);
    resolver.install(identity.pair().clone());
    let bundle = json!(ByteString(identity.authority().to_pem().into_bytes()));
    let registrar = Registrar {
        forms: forms(&options, &bundle)?,
        calls: Calls { client: calls },
    };
    let run = async move {
        let mut all = std::pin::pin!(registrar.keep_in_place());
        tokio::select! {
            () = &mut all => {}
            () = stop => {}
        }
        registrar.take_out().await;
        Ok(())
    };
    Ok((resolver, run))
}

fn forms(options: &Registration, bundle: &Value) -> Result<Vec<UrlForm>, serde_json::Error> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let configuration = &options.webhook_configuration;
    let mut packaged = vec![(
        Registered::Validating(name(&configuration.metadata.name)),
        serde_json::to_value(configuration)?,
    )];
    for crd in &options.crds {
        packaged.push((
            Registered::Converted(name(&crd.metadata.name)),
            serde_json::to_value(crd)?,
        ));
    }
    let forms = packaged.into_iter();
    let forms = forms.filter_map(|(registered, packaged)| {
        UrlForm::new(registered, &packaged, &options.url, bundle)
    });
    Ok(forms.collect())
}

struct Registrar {
    forms: Vec<UrlForm>,
    calls: Calls,
}

impl Registrar {
    /// Never completes.
    async fn keep_in_place(&self) {
        let mut said = vec![None; self.forms.len()];
        loop {
            let mut missing = false;
            for (form, said) in self.forms.iter().zip(&mut said) {
                match self.put(form).await {
                    Ok(there) => {
                        *said = None;
                        missing |= !there;
                    }
                    Err(error) if error.is_conflict() => missing = true,
                    Err(error) => {
                        missing = true;
                        let text = error_report(&error);
                        if said.as_ref() != Some(&text) {
                            tracing::warn!(error = text, "cannot register the webhook URL");
                            *said = Some(text);
                        }
                    }
                }
            }
            sleep(if missing { RETRY } else { RECHECK }).await;
        }
    }

    /// Writes one form into its object; returns whether the object exists.
    async fn put(&self, form: &UrlForm) -> Result<bool, RequestError> {
        let place = form.registered().place();
        match self.calls.get(&place).await?.object {
            Some(object) => {
                if let Some(object) = form.put_into(object) {
                    self.calls.replace(&place, &object).await?;
                    tracing::info!(
                        object = place.name,
                        "the API server now calls the webhook URL"
                    );
                }
                Ok(true)
            }
            None => match form.fresh() {
                Some(object) => {
                    self.calls.create(&place, &object).await?;
                    tracing::info!(
                        object = place.name,
                        "the API server now calls the webhook URL"
                    );
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// Restores all objects concurrently, since the time to stop is short.
    async fn take_out(&self) {
        join_all(self.forms.iter().map(async |form| {
            let mut outcome = self.restore(form).await;
            // A conflict, e.g. with the API server's write of a CRD's conditions.
            if matches!(&outcome, Err(error) if error.is_conflict()) {
                outcome = self.restore(form).await;
            }
            if let Err(error) = outcome {
                let object = form.registered().name();
                let error = error_report(&error);
                tracing::error!(
                    object,
                    error,
                    "cannot restore the original webhook configuration"
                );
            }
        }))
        .await;
    }

    async fn restore(&self, form: &UrlForm) -> Result<(), RequestError> {
        let place = form.registered().place();
        let Some(object) = self.calls.get(&place).await?.object else {
            return Ok(());
        };
        let version = object.pointer("/metadata/resourceVersion").cloned();
        match form.take_out_of(object) {
            Restored::Nothing => {}
            Restored::Replace(object) => {
                self.calls.replace(&place, &object).await?;
                tracing::info!(
                    object = place.name,
                    "restored the original webhook configuration"
                );
            }
            Restored::Delete => {
                let version = version.unwrap_or_default();
                self.calls.delete(&place, &version).await?;
                tracing::info!(object = place.name, "removed the webhook configuration");
            }
        }
        Ok(())
    }
}
