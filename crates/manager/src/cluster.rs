//! The client of the API server: its address, the credentials, and the deadlines of all requests.
//! Builds the client; sends no requests.

use std::error::Error;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::{HeaderValue, header::USER_AGENT};
use kube::Client;
use kube::client::{AuthError, ClientBuilder};
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use prometheus_client::registry::Registry;
use rustls::pki_types::pem;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tower::BoxError;

use super::client_certificate::ClientCertificate;
use super::requests::RequestCounter;
use super::{Application, RunError};

/// Longest wait for a TCP and TLS connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence on a connection that waits for a response or for more of it. Informers request watches
/// of half this time. Single reads and writes have shorter deadlines.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for a connection that takes no more of a request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The cluster that the manager works in.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Its client, which does not retry: the work queue has the latest state of an object.
    pub(crate) client: Client,
    /// URL of the API server for the log, e.g. `https://10.96.0.1/`.
    pub(super) server: String,
    /// The namespace of this pod; `None` with a kubeconfig.
    pub(super) pod_namespace: Option<String>,
    /// When the API server answered last, or the process began.
    pub(super) answered: watch::Receiver<Instant>,
    pub(super) client_certificate: ClientCertificate,
}

impl Cluster {
    /// Finds the cluster in controller-runtime's order: the file `kubeconfig`, then `KUBECONFIG`, then the
    /// pod's service account, then `~/.kube/config`. Registers the metric of requests.
    ///
    /// Runs the credential plugin of a kubeconfig, without a deadline.
    ///
    /// (`kube::Config::infer` prefers a kubeconfig in the home directory to the service account, and hides
    /// the error of the first source.)
    pub(super) async fn connect(
        application: &Application,
        kubeconfig: Option<&Path>,
        registry: &mut Registry,
    ) -> Result<Self, RunError> {
        let (mut config, is_pod) = found(kubeconfig).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.write_timeout = Some(WRITE_TIMEOUT);
        // Otherwise the idle time of a pooled connection counts towards the timeout of the next response.
        config.reset_reader_on_write = true;
        config.default_retry = false;
        config.proxy_url = None;
        let agent = format!("{}/{}", application.brand.name, application.version);
        let agent = HeaderValue::try_from(agent).ok();
        let agent = agent.map(|agent| (USER_AGENT, agent));
        config.headers.extend(agent);
        if let Some(plugin) = &config.auth_info.exec {
            let command = &plugin.command;
            tracing::info!(command, "running the credential plugin of the kubeconfig");
        }
        let server = config.cluster_url.to_string();
        let given = std::env::var("POD_NAMESPACE").ok();
        let given = given.filter(|given| !given.is_empty());
        let pod_namespace = given.or_else(|| is_pod.then(|| config.default_namespace.clone()));
        let requests = RequestCounter::new(&config.cluster_url, registry);
        let answered = requests.answered.subscribe();
        let client_certificate = ClientCertificate::of(&config.auth_info);
        // A plugin may wait for minutes for a login in a browser. Signals are handled meanwhile.
        let built = spawn_blocking(move || client(config, &requests)).await;
        let built = built.map_err(BoxError::from).and_then(|built| built);
        let problem = format!("cannot build a client for {server}");
        let client = built.map_err(RunError::configuration(problem))?;
        Ok(Self {
            client,
            server,
            pod_namespace,
            answered,
            client_certificate,
        })
    }
}

/// kube's client, whose requests are counted. Blocks while a plugin runs.
fn client(config: Config, requests: &RequestCounter) -> Result<Client, BoxError> {
    match ClientBuilder::try_from(config) {
        Ok(builder) => Ok(builder.with_layer(requests).build()),
        Err(error) => Err(without_secrets(error.into())),
    }
}

/// The configuration, and whether it is that of a pod.
async fn found(file: Option<&Path>) -> Result<(Config, bool), RunError> {
    let read = |file: &Path| (file.display().to_string(), Kubeconfig::read_from(file));
    let (origin, kubeconfig) = if let Some(file) = file {
        read(file)
    } else if let Some(kubeconfig) = Kubeconfig::from_env().transpose() {
        ("KUBECONFIG".to_owned(), kubeconfig)
    } else if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        let problem = "cannot use the pod's service account";
        let config = Config::incluster().map_err(RunError::configuration(problem));
        return Ok((config?, true));
    } else {
        let file = std::env::home_dir().map(|home| home.join(".kube").join("config"));
        read(&file.filter(|file| file.exists()).ok_or_else(|| {
            let problem = "no cluster: not in a pod, KUBECONFIG is not set and there is no \
                           ~/.kube/config; set KUBECONFIG or pass --kubeconfig";
            RunError::Configuration(problem.to_owned(), None)
        })?)
    };
    let authority = kubeconfig.as_ref().ok().and_then(authority_file);
    let config = match kubeconfig {
        Ok(found) => Config::from_custom_kubeconfig(found, &KubeConfigOptions::default()).await,
        Err(error) => Err(error),
    };
    let config = config.map_err(|error| without_secrets(error.into()));
    let problem = format!("cannot use the kubeconfig from {origin}");
    let mut config = config.map_err(RunError::configuration(problem))?;
    // kube reads this file again every minute, as it does with a token and in a pod.
    config.root_cert_file = authority;
    Ok((config, false))
}

/// The file of the authority of the current context, if it is not in the kubeconfig itself.
fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|it| it.name == *current)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|it| it.name == context.cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    let file = cluster.certificate_authority.as_ref();
    let file = file.filter(|_| cluster.certificate_authority_data.is_none());
    file.map(PathBuf::from)
}

/// An error of kube without the parts of credentials that some contain, since errors are logged: lines of a
/// kubeconfig, bytes of a client key that is not PEM, the environment and output of a credential plugin.
pub(super) fn without_secrets(error: BoxError) -> BoxError {
    let first: &(dyn Error + 'static) = &*error;
    let mut causes = iter::successors(Some(first), |&cause| cause.source());
    let problem = causes.find_map(|cause| {
        if cause.is::<pem::Error>() {
            return Some("a certificate or key is not PEM".to_owned());
        }
        if let Some(KubeconfigError::Parse(error)) = cause.downcast_ref() {
            let line = error.location().map_or(0, |at| at.line());
            return Some(format!("not a kubeconfig at line {line}"));
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let pem = format!("client-certificate-data: {key}, client-key-data: {key}");
        let fails = format!("exec: {{{exec}, args: [-c, 'echo $TOKEN; exit 3']}}");
        let prints = format!("exec: {{{exec}, args: [-c, 'echo $TOKEN']}}");
        for (user, problem) in [
            (&*pem, "is not PEM"),
            (&fails, "exit status: 3"),
            (&prints, "not an ExecCredential"),
            ("token: s3cr3t, exec: [", "line 2"),
        ] {
            let error = match Kubeconfig::from_yaml(&file(user)) {
                Ok(kubeconfig) => {
                    let options = KubeConfigOptions::default();
                    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                    let config = config.expect("a configuration");
                    let requests =
                        RequestCounter::new(&config.cluster_url, &mut Registry::default());
                    client(config, &requests).err().expect("an error")
                }
                Err(error) => without_secrets(error.into()),
            };
            let report = format!("{} {error:?}", quartet_http::error_report(&*error));
            assert!(report.contains(problem), "{report}");
            for secret in ["s3cr3t", "[45, 45", "c2Vj", key] {
                assert!(!report.contains(secret), "{report}");
            }
        }
    }
}
