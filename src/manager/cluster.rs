//! The clients of the API server: its address, the credentials, and the deadlines of all requests.
//! Builds clients; sends no requests.

use std::error::Error;
use std::iter;
use std::panic::resume_unwind;
use std::path::Path;
use std::time::Duration;

use axum::http::uri::Authority;
use axum::http::{HeaderValue, header::USER_AGENT};
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Client;
use kube::client::middleware::{AuthLayer, ExtraHeadersLayer};
use kube::client::{AuthError, ClientBuilder, ConfigExt as _};
use kube::config::{Config, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use rustls::pki_types::pem;
use tokio::task::spawn_blocking;
use tower::layer::layer_fn;
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder};

use super::requests::RequestCounter;
use crate::budget::READ_BYTES;

/// Longest wait for a TCP and TLS connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the response to a single read or write, and between two parts of it. An apply takes
/// milliseconds; the work queue retries one that takes this long.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the start of a list or a watch: the API server's own request timeout.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest silence on a list or a watch. Informers request watches of less than half this time and
/// detect stalled watches themselves; this limit detects a stalled list.
const STREAM_TIMEOUT: Duration = Duration::from_secs(120);

/// Two clients of one API server, with different timeouts.
#[derive(Clone)]
pub struct Clients {
    /// For single reads and writes: a response within 10 s, or an error.
    pub calls: Client,
    /// For lists and watches, which may be idle for minutes.
    pub watches: Client,
    /// URL of the API server for the log, e.g. `https://10.96.0.1/`.
    pub server: String,
    /// Its address and the credentials.
    pub(crate) config: Config,
}

/// Why no client can be built.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig cannot be read or is not valid.
    #[error("cannot use the kubeconfig from {origin}")]
    Kubeconfig {
        /// Its source: a file or `KUBECONFIG`.
        origin: String,
        /// The cause, without a part of the credentials.
        source: BoxError,
    },
    /// The files of the pod's service account cannot be used.
    #[error("cannot use the pod's service account")]
    ServiceAccount(#[source] InClusterError),
    /// No cluster is configured.
    #[error(
        "no cluster: not in a pod, KUBECONFIG is not set and there is no ~/.kube/config; set \
         KUBECONFIG or pass --kubeconfig=FILE"
    )]
    NoCluster,
    /// The credentials or certificates in the configuration cannot be used.
    #[error("cannot build a client for {server}")]
    Client {
        /// URL of the API server.
        server: String,
        /// The cause, without a part of the credentials.
        source: BoxError,
    },
}

/// An error of kube without the parts of credentials that some contain, since errors are logged: lines of a
/// kubeconfig, bytes of a client key that is not PEM, the environment and output of a credential plugin.
fn without_secrets(error: BoxError) -> BoxError {
    let first: &(dyn Error + 'static) = &*error;
    let mut causes = iter::successors(Some(first), |&cause| cause.source());
    let problem = causes.find_map(|cause| {
        if cause.is::<pem::Error>() {
            let problem = "the client certificate or its key is not PEM; is it on one line?";
            return Some(problem.to_owned());
        }
        if let Some(KubeconfigError::Parse(error)) = cause.downcast_ref() {
            return Some(match error.location() {
                Some(at) => format!(
                    "not a kubeconfig at line {}, column {}",
                    at.line(),
                    at.column()
                ),
                None => "not a kubeconfig".to_owned(),
            });
        }
        if let Some(KubeconfigError::ParseCertificates(_)) = cause.downcast_ref() {
            return Some("the certificate authority is not PEM".to_owned());
        }
        match cause.downcast_ref()? {
            AuthError::AuthExecRun { out, .. } => Some(format!(
                "the credential plugin failed: {}; run it to see why",
                out.status
            )),
            AuthError::AuthExecParse(_) => {
                Some("the output of the credential plugin is not an ExecCredential".to_owned())
            }
            _ => None,
        }
    });
    problem.map_or(error, BoxError::from)
}

/// Finds the cluster in controller-runtime's order: the file `kubeconfig`, then
/// `KUBECONFIG`, then the pod's service account, then `~/.kube/config`.
///
/// Runs the credential plugin of a kubeconfig, without a deadline.
///
/// (`kube::Config::infer` prefers a kubeconfig in the home directory to the service account, and hides
/// the error of the first source.)
pub(super) async fn connect(
    kubeconfig: Option<&Path>,
    requests: &RequestCounter,
) -> Result<(Clients, Access), ClusterError> {
    let mut config = found(kubeconfig).await?;
    config.headers.push((USER_AGENT, user_agent()));
    if let Some(plugin) = &config.auth_info.exec {
        let command = &plugin.command;
        tracing::info!(command, "running the credential plugin of the kubeconfig");
    }
    let copy = config.clone();
    // A plugin may wait for minutes for a login in a browser. Signals are handled meanwhile.
    let access = spawn_blocking(move || Access::of(&copy)).await;
    let access = access.unwrap_or_else(|error| resume_unwind(error.into_panic()))?;
    let clients = Clients {
        calls: access.for_calls(&config, requests),
        watches: access.client(&config, LIST_TIMEOUT, STREAM_TIMEOUT, requests),
        server: config.cluster_url.to_string(),
        config,
    };
    Ok((clients, access))
}

/// What all clients of a cluster share, because kube runs a plugin of the kubeconfig to make it: once for
/// the TLS connector and once for the credentials.
pub(super) struct Access {
    tls: HttpsConnector<HttpConnector>,
    credentials: Option<AuthLayer>,
    headers: ExtraHeadersLayer,
}

impl Access {
    /// Blocks while a plugin runs.
    fn of(config: &Config) -> Result<Self, ClusterError> {
        let failed = |error: kube::Error| ClusterError::Client {
            server: config.cluster_url.to_string(),
            source: without_secrets(error.into()),
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // As client-go. Otherwise the first request of a connection waits 40 ms for the delayed
        // acknowledgement of the end of the TLS handshake.
        tcp.set_nodelay(true);
        let tls = config.rustls_https_connector_with_connector(tcp);
        Ok(Self {
            tls: tls.map_err(failed)?,
            credentials: config.auth_layer().map_err(failed)?,
            headers: config.extra_headers_layer().map_err(failed)?,
        })
    }

    /// A client for single reads and writes, with its own connections.
    pub(super) fn for_calls(&self, config: &Config, requests: &RequestCounter) -> Client {
        self.client(config, CALL_TIMEOUT, CALL_TIMEOUT, requests)
    }

    /// A client as `kube::Client::try_from` builds it, but for retries (the work queue has the latest state
    /// of an object), the log of its requests, and [`READ_BYTES`].
    fn client(
        &self,
        config: &Config,
        until_answered: Duration,
        between_reads: Duration,
        requests: &RequestCounter,
    ) -> Client {
        let mut connector = TimeoutConnector::new(self.tls.clone());
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_read_timeout(Some(between_reads));
        connector.set_write_timeout(Some(CALL_TIMEOUT));
        // Otherwise the idle time of a pooled connection counts towards the timeout of the next response.
        connector.set_reset_reader_on_write(true);
        let exchange = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .http1_max_buf_size(READ_BYTES)
            .build(connector);
        let host = config.cluster_url.authority().map_or("", Authority::as_str);
        let service = ServiceBuilder::new()
            .layer(layer_fn(|client| requests.counted(client, host)))
            .layer(TimeoutLayer::new(until_answered))
            .layer(config.base_uri_layer())
            // A plugin runs again when its credentials expire.
            .map_err(without_secrets)
            .option_layer(self.credentials.as_ref())
            .layer(&self.headers)
            .map_err(BoxError::from)
            .service(exchange);
        ClientBuilder::new(service, config.default_namespace.as_str()).build()
    }
}

async fn found(file: Option<&Path>) -> Result<Config, ClusterError> {
    let read = |file: &Path| (file.display().to_string(), Kubeconfig::read_from(file));
    let (origin, kubeconfig) = if let Some(file) = file {
        read(file)
    } else if let Some(kubeconfig) = Kubeconfig::from_env().transpose() {
        ("KUBECONFIG".to_owned(), kubeconfig)
    } else if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster().map_err(ClusterError::ServiceAccount);
    } else {
        let file = std::env::home_dir().map(|home| home.join(".kube").join("config"));
        let file = file.filter(|file| file.exists());
        read(&file.ok_or(ClusterError::NoCluster)?)
    };
    let config = match kubeconfig {
        Ok(found) => Config::from_custom_kubeconfig(found, &KubeConfigOptions::default()).await,
        Err(error) => Err(error),
    };
    config.map_err(|error| ClusterError::Kubeconfig {
        origin,
        source: without_secrets(error.into()),
    })
}

/// The user agent, shown in the audit log and the metrics of the API server.
fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("quartet-operator/", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartet_http::error_report;

    #[tokio::test]
    async fn errors_of_a_kubeconfig_have_no_part_of_the_credentials_in_it() {
        let file = |user: &str| {
            format!(
                "clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
                 users: [{{name: a, user: {{{user}}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
            )
        };
        // The base64 of a PEM block on one line, with `\n` as two characters.
        let key = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tXG5jMlZqY21WMFxuLS0tLS1F\
                   TkQgUFJJVkFURSBLRVktLS0tLVxu";
        let exec = "apiVersion: client.authentication.k8s.io/v1, command: sh, \
                    env: [{name: TOKEN, value: s3cr3t}], interactiveMode: Never";
        let wrong = [
            (
                format!("client-certificate-data: {key}, client-key-data: {key}"),
                "is it on one line?",
            ),
            (
                format!("exec: {{{exec}, args: [-c, 'echo $TOKEN; exit 3']}}"),
                "exit status: 3",
            ),
            (
                format!("exec: {{{exec}, args: [-c, 'echo $TOKEN']}}"),
                "not an ExecCredential",
            ),
            ("token: s3cr3t, exec: [".to_owned(), "line 2"),
        ];
        for (user, problem) in wrong {
            let error = match Kubeconfig::from_yaml(&file(&user)) {
                Ok(kubeconfig) => {
                    let options = KubeConfigOptions::default();
                    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                    let config = config.expect("a configuration");
                    Access::of(&config).err().expect("an error")
                }
                Err(error) => ClusterError::Kubeconfig {
                    origin: "KUBECONFIG".to_owned(),
                    source: without_secrets(error.into()),
                },
            };
            let report = format!("{} {error:?}", error_report(&error));
            assert!(report.contains(problem), "{report}");
            for secret in ["s3cr3t", "[45, 45", "c2Vj", key] {
                assert!(!report.contains(secret), "{report}");
            }
        }
    }
}
