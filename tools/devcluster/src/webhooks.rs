//! `devcluster webhooks --url URL -- COMMAND`: while the command serves the webhooks on this machine, the
//! API server of `KUBECONFIG` calls them at the URL. At the end, the objects are restored.
//!
//! A run that was killed leaves its URL in the objects. The next run replaces it, and restores what the
//! manifests say; so does `make install`.

mod place;

use std::error::Error;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use self::place::{Change, Place};
use crate::run::{bound, exit_code};

const POLL: Duration = Duration::from_millis(20);
/// How often the objects are checked: `make install` creates or replaces them.
const RECHECK: Duration = Duration::from_secs(10);

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
    match host(url) {
        Some(_) => Ok(url.trim_end_matches('/').to_owned()),
        None => Err("give https://HOST:PORT without user, path, query or fragment"),
    }
}

/// The host of `https://HOST:PORT`, a name or an IP address, without brackets.
fn host(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://")?.trim_end_matches('/');
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty() && !host.contains(['/', '@', '?', '#'])).then_some(host)
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
    folder: &Path,
    arguments: &Arguments,
    signal: &AtomicUsize,
) -> Result<ExitCode, Box<dyn Error>> {
    let kubectl = Kubectl(arguments.kubectl.clone());
    if !arguments.force {
        kubectl.check_is_on_this_machine()?;
    }
    let host = host(&arguments.url).unwrap_or_default().to_owned();
    let made = rcgen::generate_simple_self_signed([host])?;
    fs::write(folder.join("tls.crt"), made.cert.pem())?;
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem())?;
    let packaged = kubectl.packaged(&arguments.root)?.into_iter();
    let mut places: Vec<_> = packaged
        .map(|object| Place::new(object, &arguments.url, &made.cert.pem()))
        .collect();

    let ended = kubectl
        .change(&mut places, Place::registered)
        .and_then(|()| {
            let mut command = bound(&arguments.command)?;
            command.env("WEBHOOK_CERT_PATH", folder);
            supervise(command, &kubectl, &mut places, signal)
        });
    kubectl.change(&mut places, Place::restored)?;
    ended.map(exit_code)
}

/// Runs the command until it ends, and keeps the URL registered until a signal asks to stop.
fn supervise(
    mut command: Command,
    kubectl: &Kubectl,
    places: &mut [Place],
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
            let restored = kubectl.change(places, Place::restored);
            // Ctrl-C also reaches the command, which is in the terminal's foreground group.
            if asked != usize::try_from(SIGINT)? {
                kill_process(Pid::from_child(&child), Signal::TERM)?;
            }
            restored?;
        } else if !is_stopping && checked.elapsed() > RECHECK {
            // An API server that is away is asked again.
            let _ = kubectl.change(places, Place::registered);
            checked = Instant::now();
        }
        thread::sleep(POLL);
    }
}

/// kubectl, in the cluster of `KUBECONFIG`.
struct Kubectl(OsString);

impl Kubectl {
    fn run(&self, arguments: &[&str]) -> devcluster::Result<Vec<u8>> {
        let failed = |reason: String| devcluster::Error::Kubectl {
            arguments: arguments.join(" "),
            reason,
        };
        // In a process group of its own, which Ctrl-C does not reach.
        let output = Command::new(&self.0)
            .args(arguments)
            .process_group(0)
            .output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(failed(errors.trim().to_owned()));
        }
        Ok(output.stdout)
    }

    fn check_is_on_this_machine(&self) -> Result<(), Box<dyn Error>> {
        let path = "-o=jsonpath={.clusters[0].cluster.server}";
        let server = self.run(&["config", "view", "--minify", path])?;
        let server = String::from_utf8(server)?;
        if host(&server).is_some_and(is_loopback) {
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
        let objects = self.run(&[
            "create",
            "--dry-run=client",
            "--validate=false",
            "--output=json",
            &file("config/crd/bases"),
            &file("config/webhook/manifests.yaml"),
        ])?;
        let objects = serde_json::Deserializer::from_slice(&objects).into_iter();
        Ok(objects.collect::<Result<_, _>>()?)
    }

    /// Reads the objects and makes the change that `wanted` returns for each.
    fn change(
        &self,
        places: &mut [Place],
        wanted: fn(&mut Place, Option<&Value>) -> Option<Change>,
    ) -> Result<(), Box<dyn Error>> {
        let names: Vec<_> = places.iter().map(Place::name).collect();
        let mut arguments = vec!["get", "--ignore-not-found", "--output=json"];
        arguments.extend(names.iter().map(String::as_str));
        let list = self.run(&arguments)?;
        // Empty if there are none.
        let list: Value = serde_json::from_slice(&list).unwrap_or_default();
        for place in places {
            let name = place.name();
            let mut found = list["items"].as_array().into_iter().flatten();
            match wanted(place, found.find(|object| place::name(object) == name)) {
                None => {}
                Some(Change::Patch(patch)) => {
                    let patch = format!("--patch={patch}");
                    self.run(&["patch", &name, "--type=json", &patch])?;
                }
                Some(Change::Delete) => {
                    self.run(&["delete", &name])?;
                }
                Some(Change::Create(object)) => {
                    let file = env::temp_dir().join(format!("webhooks-{}.json", process::id()));
                    fs::write(&file, object.to_string())?;
                    let created = self.run(&["create", "--filename", &file.to_string_lossy()]);
                    fs::remove_file(file)?;
                    created?;
                }
            }
        }
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{host, is_loopback, valid};

    #[test]
    fn loopback_is_known_by_name_and_by_address() {
        for host in ["127.0.0.1", "127.8.9.10", "::1", "localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "10.96.0.1",
            "localhost.example.com",
            "127.0.0.1.example.com",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_host_and_a_port_are_all_that_a_url_may_have() {
        for (url, expected) in [
            ("https://127.0.0.1:9443", "127.0.0.1"),
            ("https://[::1]:9443/", "::1"),
            ("https://[::1]", "::1"),
            ("https://host.test", "host.test"),
        ] {
            assert_eq!(valid(url).as_deref(), Ok(url.trim_end_matches('/')));
            assert_eq!(host(url), Some(expected));
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
