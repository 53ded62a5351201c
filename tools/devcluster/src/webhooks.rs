//! `devcluster webhooks --url URL -- COMMAND`: while the command serves the webhooks on this machine, the
//! API server of `KUBECONFIG` calls them at the URL. At the end, the objects are restored.
//!
//! A run that was killed leaves its URL in the objects. The next run replaces it, and restores what the
//! manifests say; so does `make install`.

use std::error::Error;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::run::{bound, exit_code, to_forward, wait};

/// How often the objects are checked: `make install` creates or replaces them.
const RECHECK: Duration = Duration::from_secs(10);

/// On a webhook configuration that was created here; `make install` deletes what a killed run left.
const LABEL: &str = "app.kubernetes.io/managed-by";
const CREATED_HERE: &str = "devcluster";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// https://HOST:PORT at which the API server reaches the command
    #[arg(long, env = "WEBHOOK_URL")]
    url: Uri,
    /// Allow an API server on another machine, all users of which then depend on the command
    #[arg(long, env = "WEBHOOK_URL_FORCE")]
    force: bool,
    /// The folder that holds config/
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// A folder to write the certificate to, instead of a temporary one
    #[arg(long, value_name = "FOLDER")]
    certificate: Option<PathBuf>,
    /// The kubectl to use
    #[arg(long, env = "KUBECTL", default_value = "kubectl")]
    kubectl: OsString,
    /// The command, which finds its certificate by the variable WEBHOOK_CERT_PATH; its exit code is that
    /// of `webhooks`
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    // Before the flag of `wait`, so that it is set when a signal is forwarded.
    let is_stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&is_stopping))?;
    }
    let temporary = env::temp_dir().join(format!("devcluster-webhooks-{}", process::id()));
    let folder = arguments.certificate.as_ref().unwrap_or(&temporary);
    // It holds a key.
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700).create(folder)?;
    let result = run_in(&fs::canonicalize(folder)?, arguments, &is_stopping);
    // Missing if another folder was given.
    let _ = fs::remove_dir_all(temporary);
    result
}

fn run_in(
    folder: &Path,
    arguments: &Arguments,
    is_stopping: &AtomicBool,
) -> Result<ExitCode, Box<dyn Error>> {
    let kubectl = Kubectl(&arguments.kubectl);
    if !arguments.force {
        kubectl.check_is_on_this_machine()?;
    }
    let made = rcgen::generate_simple_self_signed([host(&arguments.url).to_owned()])?;
    fs::write(folder.join("tls.crt"), made.cert.pem())?;
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem())?;
    let (url, certificate) = (arguments.url.to_string(), made.cert.pem());
    let packaged = kubectl.packaged(&arguments.root)?.into_iter();
    let mut places: Vec<_> = packaged
        .map(|object| Place::new(object, &url, &certificate, folder))
        .collect();
    for place in &places {
        fs::write(&place.file, place.desired.to_string())?;
    }
    let ended = kubectl
        .change(&mut places, Place::registered)
        .and_then(|()| {
            // A Ctrl-C during the registration did not reach the command.
            if is_stopping.load(Ordering::Relaxed) {
                return Err(devcluster::Error::Interrupted.into());
            }
            let mut command = bound(&arguments.command);
            let mut child = command.env("WEBHOOK_CERT_PATH", folder).spawn()?;
            let (mut checked, mut is_restored) = (Instant::now(), false);
            wait(&mut child, &*to_forward()?, || {
                if is_stopping.load(Ordering::Relaxed) && !is_restored {
                    // First, so that the API server calls no address that is not served.
                    is_restored = true;
                    return kubectl.change(&mut places, Place::restored);
                }
                if !is_restored && checked.elapsed() > RECHECK {
                    // An API server that is away is asked again.
                    let _ = kubectl.change(&mut places, Place::registered);
                    checked = Instant::now();
                }
                Ok(())
            })
        });
    kubectl.change(&mut places, Place::restored)?;
    ended.map(exit_code)
}

/// The host of a URL, a name or an IP address, without brackets.
fn host(url: &Uri) -> &str {
    let host = url.host().unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

/// kubectl, in the cluster of `KUBECONFIG`.
struct Kubectl<'a>(&'a OsString);

impl Kubectl<'_> {
    fn run(&self, arguments: &[String]) -> devcluster::Result<String> {
        // In a process group of its own, which Ctrl-C does not reach.
        devcluster::output_of(Command::new(self.0).args(arguments).process_group(0))
    }

    fn check_is_on_this_machine(&self) -> Result<(), Box<dyn Error>> {
        let path = "-o=jsonpath={.clusters[0].cluster.server}";
        let server = self.run(&["config", "view", "--minify", path].map(str::to_owned))?;
        if is_loopback(host(&server.parse()?)) {
            return Ok(());
        }
        Err(format!(
            "the API server at {server} is not on this machine; all its users would depend on \
             this process. Pass --force, or set WEBHOOK_URL_FORCE=true, if that is what you want"
        )
        .into())
    }

    /// The CRDs and the webhook configuration of the manifests.
    fn packaged(&self, root: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
        let file = |path: &str| format!("--filename={}", root.join(path).display());
        let flags = "create --dry-run=client --validate=false --output=json";
        let mut arguments: Vec<_> = flags.split(' ').map(str::to_owned).collect();
        arguments.push(file("config/crd/bases"));
        arguments.push(file("config/webhook/manifests.yaml"));
        let objects = self.run(&arguments)?;
        let objects = serde_json::Deserializer::from_str(&objects).into_iter();
        Ok(objects.collect::<Result<_, _>>()?)
    }

    /// Reads the objects and runs the command that `change` returns for each.
    fn change(
        &self,
        places: &mut [Place],
        change: fn(&mut Place, Option<&Value>) -> Option<Vec<String>>,
    ) -> Result<(), Box<dyn Error>> {
        let mut arguments = ["get", "--ignore-not-found", "--output=json"]
            .map(str::to_owned)
            .to_vec();
        arguments.extend(places.iter().map(|place| place.name.clone()));
        // Empty if there are none.
        let list: Value = serde_json::from_str(&self.run(&arguments)?).unwrap_or_default();
        for place in places {
            let mut found = list["items"].as_array().into_iter().flatten();
            let found = found.find(|object| name(object) == place.name);
            if let Some(arguments) = change(place, found) {
                self.run(&arguments)?;
            }
        }
        Ok(())
    }
}

/// An object that calls the webhooks, with a URL in place of the Service: a CRD, or the webhook
/// configuration.
struct Place {
    /// `TYPE/NAME`.
    name: String,
    /// The pointer to the part that holds every clientConfig. The API server sets it in every CRD.
    part: &'static str,
    /// As in the manifests.
    packaged: Value,
    /// The same with the URL.
    desired: Value,
    /// The file of the object with the URL.
    file: PathBuf,
    /// What the URL replaced.
    replaced: Value,
}

impl Place {
    fn new(packaged: Value, url: &str, certificate: &str, folder: &Path) -> Self {
        let mut desired = packaged.clone();
        let is_crd = packaged["kind"] == "CustomResourceDefinition";
        let part = if is_crd {
            "/spec/conversion"
        } else {
            "/webhooks"
        };
        for client in clients(&mut desired, part) {
            let path = client["service"]["path"].as_str().unwrap_or_default();
            let url = format!("{}{path}", url.trim_end_matches('/'));
            *client = json!({"url": url, "caBundle": STANDARD.encode(certificate)});
        }
        if !is_crd {
            desired["metadata"]["labels"][LABEL] = CREATED_HERE.into();
        }
        let name = name(&packaged);
        Self {
            file: folder.join(name.replace('/', "-")),
            name,
            part,
            packaged,
            desired,
            replaced: Value::Null,
        }
    }

    /// Has the object call the URL; keeps what it called. `make install` creates CRDs.
    fn registered(&mut self, found: Option<&Value>) -> Option<Vec<String>> {
        let is_crd = self.part == "/spec/conversion";
        let Some(found) = found else {
            let create = || {
                vec![
                    "create".to_owned(),
                    format!("--filename={}", self.file.display()),
                ]
            };
            return (!is_crd).then(create);
        };
        let is_single = found["spec"]["versions"].as_array().map_or(0, Vec::len) < 2;
        let called = self.urls(found);
        if called == self.urls(&self.desired) || is_crd && is_single {
            return None;
        }
        // A URL was left by a run that was killed.
        let original = if called.is_empty() {
            found
        } else {
            &self.packaged
        };
        self.replaced = original.pointer(self.part).cloned().unwrap_or_default();
        Some(self.patch(self.desired.pointer(self.part)))
    }

    /// Has an object that calls the URL call what that replaced, or deletes it if it was created here.
    fn restored(&mut self, found: Option<&Value>) -> Option<Vec<String>> {
        let calls_it = |found: &&Value| {
            let called = self.urls(found);
            // A CRD of one version calls nothing.
            !called.is_empty() && called == self.urls(&self.desired)
        };
        let found = found.filter(calls_it)?;
        if found["metadata"]["labels"][LABEL] == CREATED_HERE {
            return Some(vec!["delete".to_owned(), self.name.clone()]);
        }
        Some(self.patch(Some(&self.replaced)))
    }

    fn patch(&self, value: Option<&Value>) -> Vec<String> {
        let patch = json!([{"op": "replace", "path": self.part, "value": value}]);
        let patch = format!("--patch={patch}");
        vec![
            "patch".to_owned(),
            self.name.clone(),
            "--type=json".to_owned(),
            patch,
        ]
    }

    /// The URLs and bundles that the object calls.
    fn urls(&self, object: &Value) -> Vec<(Value, Value)> {
        let mut object = object.clone();
        let clients = clients(&mut object, self.part).into_iter();
        let with_url = clients.filter(|client| client["url"].is_string());
        with_url
            .map(|client| (client["url"].take(), client["caBundle"].take()))
            .collect()
    }
}

/// Every clientConfig in a part of the object.
fn clients<'a>(object: &'a mut Value, part: &str) -> Vec<&'a mut Value> {
    let holders = match object.pointer_mut(part) {
        Some(Value::Array(webhooks)) => webhooks.iter_mut().collect(),
        Some(conversion) => conversion.get_mut("webhook").into_iter().collect(),
        None => Vec::new(),
    };
    let clients = holders
        .into_iter()
        .filter_map(|it| it.get_mut("clientConfig"));
    clients.collect()
}

/// `TYPE/NAME`.
fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    format!("{kind}/{}", text(&object["metadata"]["name"]))
}

#[cfg(test)]
mod tests;
