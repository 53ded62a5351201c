//! Follows a document as its reader does: in a cluster of its own, from the folder of the
//! checkout, or of a copy where files are changed. What a command prints is compared with what
//! the document shows.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Options, Process, free_port, watched};
use regex::Regex;
use testkit::{Limit, bash_line};

use crate::covered::{Elsewhere, Place};
use crate::document::{Action, Document};
use crate::{normal, trusted};

/// Twice what the longest takes, which is a build.
const LIMIT: Duration = Duration::from_secs(600);
/// A reader looks again; what takes longer than this, on an idle machine, is not as the document
/// says.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);
const GRACE: Duration = Duration::from_secs(15);

/// A reader's shell is not that of a test that make and cargo run. (With these variables, cargo
/// takes crates whose build scripts look at them for changed.)
const CLEAN: &str = "unset MAKEFLAGS MAKELEVEL ${!CARGO_PKG_@} ${!CARGO_MANIFEST_@}";

/// Where a document is followed.
struct Reader {
    folder: PathBuf,
    variables: Vec<(String, OsString)>,
    /// `make run`, until the next one or the end. Dropped before the cluster.
    manager: Option<Process>,
    cluster: Cluster,
}

/// Does what `document` says, but what others do.
///
/// # Errors
/// The first step that does not do what the document says.
pub(crate) fn follow(root: &Path, document: &Document, others: &Elsewhere) -> Result<(), String> {
    let mut reader = Reader::sit_down(root, document.changes_files())?;
    for step in &document.steps {
        let done = match &step.action {
            Action::Run { command, shown } if others.place(command, shown) != Place::Here => Ok(()),
            Action::Run { command, shown } => reader.do_as_shown(command, shown),
            Action::Prepare(command) => reader.do_as_shown(command, ""),
            Action::Apply(resource) => reader.pipe("kubectl apply -f -", resource),
            Action::Write { path, text } => {
                fs::write(reader.folder.join(path), text).map_err(|error| error.to_string())
            }
            Action::Patch(text) => reader.pipe("git apply --verbose -", text),
        };
        done.map_err(|error| {
            let log = reader.manager_log();
            let manager = devcluster::tail(&log, 15);
            format!("{}:{}: {error}\n{manager}", document.path, step.line)
        })?;
    }
    let report = trusted::check(&reader.cluster.audit_log());
    report.print(&document.path);
    match report.violations.as_slice() {
        [] => Ok(()),
        violations => Err(format!("{}: {violations:#?}", document.path)),
    }
}

impl Reader {
    fn sit_down(root: &Path, in_a_copy: bool) -> Result<Self, String> {
        let cluster = Cluster::start(Options::default()).map_err(|error| error.to_string())?;
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target);
        let mut variables: Vec<(String, OsString)> =
            vec![("CARGO_TARGET_DIR".into(), target.clone().into())];
        for (name, mut value) in cluster.environment().variables() {
            if name == "PATH" {
                let debug = target.join("debug").into_os_string();
                value = [debug, value].join(":".as_ref());
            }
            variables.push((name.into(), value));
        }
        let mut reader = Self {
            folder: root.to_owned(),
            variables,
            manager: None,
            cluster,
        };
        if in_a_copy {
            reader.copy(&target)?;
        }
        Ok(reader)
    }

    /// A checkout with everything as it is here, all of it committed. To cargo its crates are
    /// the same as ours, so what it builds is kept apart; what it builds upon is shared, by
    /// links.
    fn copy(&mut self, target: &Path) -> Result<(), String> {
        // A project beside the checkout is in the same folder.
        let reader = target.join("docs/reader");
        let copy = reader.join("checkout");
        let (from, built) = (target.display(), target.join("docs/target"));
        let (to, built_to) = (copy.display(), built.display());
        self.run(&format!(
            "rm -rf '{}' && mkdir -p '{to}' && git ls-files -z --cached --others --exclude-standard | \
             xargs -0 cp --no-dereference --parents --preserve --target-directory='{to}' && \
             rm -rf '{built_to}' && mkdir -p '{built_to}/debug/deps' && cd '{from}/debug' && \
             cp --archive .fingerprint '{built_to}/debug' && rm -rf '{built_to}'/debug/.fingerprint/quartet-operator-* && \
             cp --archive --link build '{built_to}/debug' && \
             find deps -name 'lib*' ! -name 'libquartet_operator*' -exec cp --link -t '{built_to}/debug/deps' {{}} + && \
             cd '{to}' && git init --quiet && git add --all && \
             git -c user.name=reader -c user.email=reader@example.com commit --quiet -m copy",
            reader.display()
        ))?;
        self.folder = copy;
        let variable = self
            .variables
            .iter_mut()
            .find(|(name, _)| name == "CARGO_TARGET_DIR");
        if let Some((_, value)) = variable {
            *value = built.into();
        }
        Ok(())
    }

    /// What a line prints, and whether it succeeded.
    fn say(&self, line: &str) -> Result<(bool, String), String> {
        let output = Command::new("setpriv")
            .args(bash_line(LIMIT, &format!("{CLEAN}; {line}")))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .output();
        let output = output.map_err(|error| format!("setpriv: {error}"))?;
        let said =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        Ok((output.status.success(), said.concat()))
    }

    fn run(&self, line: &str) -> Result<(), String> {
        match self.say(line)? {
            (true, _) => Ok(()),
            (false, said) => Err(format!("$ {line}\n{said}")),
        }
    }

    /// With nothing shown the command must succeed. What is shown may be a refusal.
    fn do_as_shown(&mut self, line: &str, shown: &str) -> Result<(), String> {
        if line.starts_with("make run") {
            return self.start_manager(line);
        }
        if let Some(folder) = line.strip_prefix("cd ") {
            self.folder = normal(&self.folder.join(folder));
            return Ok(());
        }
        // A reader who only looks, looks again.
        let patience = match ["kubectl get ", "kubectl describe ", "kubectl events "] {
            looks if looks.iter().any(|look| line.starts_with(look)) => PATIENCE,
            _ => Duration::ZERO,
        };
        let (began, mut limit) = (Instant::now(), Limit::new(patience));
        loop {
            let (is_success, said) = self.say(line)?;
            if is_like(shown, &said) || shown.is_empty() && is_success {
                println!("$ {line}  # {:.1} s", began.elapsed().as_secs_f32());
                return Ok(());
            }
            if limit.is_over() {
                return Err(format!("$ {line}\nshown:\n{shown}\nsaid:\n{said}"));
            }
            thread::sleep(POLL);
        }
    }

    fn pipe(&self, line: &str, text: &str) -> Result<(), String> {
        let file = self.cluster.dir().join("input");
        fs::write(&file, text).map_err(|error| error.to_string())?;
        println!("$ {line}");
        self.run(&format!("{line} <'{}'", file.display()))
    }

    /// Starts the manager in place of the one before, and waits until the API server takes
    /// resources in the old versions, which it has to have converted.
    fn start_manager(&mut self, line: &str) -> Result<(), String> {
        println!("$ {line}");
        if let Some(mut manager) = self.manager.take() {
            manager.stop(GRACE);
        }
        // Built first, so that building does not count as starting.
        self.run("cargo build --quiet --locked --workspace --bin manager")?;
        let port = || free_port().map_err(|error| error.to_string());
        let (health, webhooks) = (port()?, port()?);
        // Ports of its own, so that a manager beside it does no harm.
        let ports = [
            ("HEALTH_PROBE_BIND_ADDRESS", format!("127.0.0.1:{health}")),
            ("WEBHOOK_PORT", webhooks.to_string()),
            ("WEBHOOK_URL", format!("https://127.0.0.1:{webhooks}")),
        ];
        let folder = self.folder.display();
        let make = format!("{CLEAN}; cd '{folder}' && exec {line}");
        let mut command = watched("/bin/bash");
        command
            .args(["-c", &make])
            .envs(self.variables.iter().cloned())
            .envs(ports);
        let mut manager = Process::spawn("make run", &mut command, &self.manager_log())
            .map_err(|error| error.to_string())?;
        let mut limit = Limit::new(PATIENCE);
        while !self
            .say("kubectl apply --dry-run=server -k config/samples")?
            .0
        {
            manager.check().map_err(|error| error.to_string())?;
            if limit.is_over() {
                return Err(format!("$ {line}\nis not called in time"));
            }
            thread::sleep(POLL);
        }
        self.manager = Some(manager);
        Ok(())
    }

    fn manager_log(&self) -> PathBuf {
        self.cluster.dir().join("make-run.log")
    }
}

/// Whether `said` is what is shown, but for blanks, ages, and what `…` stands for: a part of a
/// word, or, alone, any number of words and lines.
fn is_like(shown: &str, said: &str) -> bool {
    let age = Regex::new("^[0-9]+[smhd]([0-9]+[smh])?$").expect("a pattern");
    let words = shown.split_whitespace().map(|word| match word {
        "…" => ".*".to_owned(),
        word if age.is_match(word) => "[0-9]+[smhd]([0-9]+[smh])?".to_owned(),
        word => regex::escape(word).replace('…', r"\S*"),
    });
    let pattern = words.collect::<Vec<_>>().join(r"\s+");
    let pattern = Regex::new(&format!(r"(?s)^\s*{pattern}\s*$")).expect("a pattern");
    pattern.is_match(said)
}
