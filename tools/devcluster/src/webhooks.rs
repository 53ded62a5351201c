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
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::run::{bound, exit_code};
use crate::webhooks::objects::{Registration, host};

mod objects;

const POLL: Duration = Duration::from_millis(20);
/// How often the objects are checked: `make install` creates or replaces them.
const RECHECK: Duration = Duration::from_secs(10);
/// More than one attempt, because another writer may have changed an object in between.
const ATTEMPTS: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// https://HOST:PORT at which the API server reaches the command
    #[arg(long, env = "WEBHOOK_URL", value_parser = valid)]
    url: String,
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

fn valid(url: &str) -> Result<String, &'static str> {
    let base = url.trim_end_matches('/');
    let plain = !base.contains(['@', '?', '#']) && base.matches('/').count() == 2;
    match host(base).filter(|_| plain && base.starts_with("https://")) {
        Some(_) => Ok(base.to_owned()),
        None => Err("give https://HOST:PORT without user, path, query or fragment"),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_usize(number, Arc::clone(&signal), usize::try_from(number)?)?;
    }
    let temporary = env::temp_dir().join(format!("devcluster-webhooks-{}", process::id()));
    let folder = arguments.certificate.clone().unwrap_or(temporary.clone());
    // It holds a key.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let result = run_in(&fs::canonicalize(&folder)?, arguments, &signal);
    // Missing if another folder was given.
    let _ = fs::remove_dir_all(temporary);
    result
}

fn run_in(
    folder: &std::path::Path,
    arguments: &Arguments,
    signal: &AtomicUsize,
) -> Result<ExitCode, Box<dyn Error>> {
    let kubectl = Kubectl {
        program: arguments.kubectl.clone(),
        objects: folder.join("objects.json"),
    };
    if !arguments.force {
        kubectl.check_is_on_this_machine()?;
    }
    let host = host(&arguments.url).unwrap_or_default().to_owned();
    let made = rcgen::generate_simple_self_signed([host])?;
    fs::write(folder.join("tls.crt"), made.cert.pem())?;
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem())?;
    let packaged = kubectl.packaged(&arguments.root)?;
    let mut registration = Registration::new(packaged, &arguments.url, &made.cert.pem());

    let ended = kubectl.register(&mut registration).and_then(|()| {
        let mut command = bound(&arguments.command)?;
        command.env("WEBHOOK_CERT_PATH", folder);
        supervise(command, &kubectl, &mut registration, signal)
    });
    kubectl.restore(&registration)?;
    ended.map(exit_code)
}

/// Runs the command until it ends, and keeps the URL registered until a signal asks to stop.
fn supervise(
    mut command: Command,
    kubectl: &Kubectl,
    registration: &mut Registration,
    signal: &AtomicUsize,
) -> Result<ExitStatus, Box<dyn Error>> {
    // A Ctrl-C during the registration did not reach the command.
    if signal.load(Ordering::Relaxed) != 0 {
        return Err(devcluster::Error::Interrupted.into());
    }
    let mut child = command.spawn()?;
    let (mut checked, mut is_stopping) = (Instant::now(), false);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let asked = signal.swap(0, Ordering::Relaxed);
        if asked != 0 {
            is_stopping = true;
            // First, so that the API server calls no address that is not served.
            let restored = kubectl.restore(registration);
            // Ctrl-C also reaches the command, which is in the terminal's foreground group.
            if asked != usize::try_from(SIGINT)? {
                kill_process(Pid::from_child(&child), Signal::TERM)?;
            }
            restored?;
        } else if !is_stopping && checked.elapsed() > RECHECK {
            // An API server that is away is asked again.
            let _ = kubectl.register(registration);
            checked = Instant::now();
        }
        thread::sleep(POLL);
    }
}

/// kubectl, in the cluster of `KUBECONFIG`.
struct Kubectl {
    program: OsString,
    /// A file for the objects that it writes.
    objects: PathBuf,
}

impl Kubectl {
    fn run(&self, arguments: &[&str]) -> devcluster::Result<Vec<u8>> {
        let failed = |reason: String| devcluster::Error::Kubectl {
            arguments: arguments.join(" "),
            reason,
        };
        // In a process group of its own, which Ctrl-C does not reach.
        let output = Command::new(&self.program)
            .args(arguments)
            .process_group(0)
            .output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(failed(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            )),
        }
    }

    fn check_is_on_this_machine(&self) -> Result<(), Box<dyn Error>> {
        let path = "-o=jsonpath={.clusters[0].cluster.server}";
        let server = self.run(&["config", "view", "--minify", path])?;
        let server = String::from_utf8(server)?;
        match is_loopback(host(&server).unwrap_or_default()) {
            true => Ok(()),
            false => Err(format!(
                "the API server at {server} is not on this machine; all its users would depend on \
                 this process. Pass --force, or set WEBHOOK_URL_FORCE=true, if that is what you want"
            )
            .into()),
        }
    }

    /// The CRDs and the webhook configuration of the manifests.
    fn packaged(&self, root: &std::path::Path) -> Result<Vec<Value>, Box<dyn Error>> {
        let file = |path: &str| format!("--filename={}", root.join(path).display());
        let (crds, webhooks) = (
            file("config/crd/bases"),
            file("config/webhook/manifests.yaml"),
        );
        let objects = self.run(&[
            "create",
            "--dry-run=client",
            "--validate=false",
            "--output=json",
            &crds,
            &webhooks,
        ])?;
        let objects = serde_json::Deserializer::from_slice(&objects).into_iter();
        Ok(objects.collect::<Result<_, _>>()?)
    }

    fn found(&self, registration: &Registration) -> Result<Vec<Value>, Box<dyn Error>> {
        let mut arguments = vec!["get", "--ignore-not-found", "--output=json"];
        let names = registration.names();
        arguments.extend(names.iter().map(String::as_str));
        let list = self.run(&arguments)?;
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let mut list: Value = serde_json::from_slice(&list)?;
        Ok(serde_json::from_value(list["items"].take())?)
    }

    /// Writes the URL into the objects that do not have it, and creates the webhook configuration.
    fn register(&self, registration: &mut Registration) -> Result<(), Box<dyn Error>> {
        repeat(|| {
            let found = self.found(registration)?;
            let changed = registration.placed(&found);
            self.write("replace", changed)?;
            self.write("create", registration.missing(&found))
        })
    }

    /// Restores the objects that have the URL of this run.
    fn restore(&self, registration: &Registration) -> Result<(), Box<dyn Error>> {
        repeat(|| {
            let (replaced, deleted) = registration.restored(&self.found(registration)?);
            self.write("replace", replaced)?;
            self.write("delete", deleted)
        })
    }

    fn write(&self, verb: &str, objects: Vec<Value>) -> Result<(), Box<dyn Error>> {
        if objects.is_empty() {
            return Ok(());
        }
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(&self.objects, list.to_string())?;
        self.run(&[verb, &format!("--filename={}", self.objects.display())])?;
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

fn repeat(mut attempt: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let mut result = attempt();
    for _ in 1..ATTEMPTS {
        if result.is_ok() {
            break;
        }
        result = attempt();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{is_loopback, valid};

    #[test]
    fn loopback_is_known_by_name_and_by_address() {
        for host in ["127.0.0.1", "127.8.9.10", "::1", "localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "10.96.0.1",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_host_and_a_port_are_all_that_a_url_may_have() {
        for url in [
            "https://127.0.0.1:9443",
            "https://[::1]:9443/",
            "https://host.test",
        ] {
            assert_eq!(valid(url).as_deref(), Ok(url.trim_end_matches('/')));
        }
        for url in [
            "",
            "127.0.0.1:9443",
            "http://127.0.0.1:9443",
            "https://",
            "https://:9443",
            "https://user@127.0.0.1:9443",
            "https://127.0.0.1:9443/path",
            "https://127.0.0.1:9443?query",
            "https://127.0.0.1:9443/#fragment",
        ] {
            assert!(valid(url).is_err(), "{url}");
        }
    }
}
