//! Runs commands as a user types them; prints their duration, and their output if they fail.

use std::ffi::OsString;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::bash_line;

/// The poll interval.
const POLL: Duration = Duration::from_millis(200);
/// The longest command builds the images on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// A folder to run in and variables to run with.
#[derive(Debug)]
pub(crate) struct Shell {
    variables: Vec<(OsString, OsString)>,
}

/// The output and the exit status of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) is_success: bool,
    /// Standard output.
    pub(crate) output: String,
    /// Standard error.
    pub(crate) errors: String,
}

impl Shell {
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self {
            variables: variables.into_iter().collect(),
        }
    }

    /// Runs a line of shell in the folder of the checkout.
    pub(crate) fn run(&self, line: &str) -> Said {
        let began = Instant::now();
        let said = self.run_without_printing(line);
        println!("$ {line}  # {:.1} s", began.elapsed().as_secs_f32());
        said
    }

    /// Starts one command that runs until it is killed; its output is a pipe.
    pub(crate) fn begin(&self, command: &str) -> Child {
        println!("$ {command} &");
        self.command("bash")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // Cargo's variables for its tests: a build script that reads them, such as ring's, would
        // run again under a cargo that is started here, and the manager would be rebuilt.
        let of_cargo = std::env::vars_os().map(|(name, _)| name).filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_")
        });
        for name in of_cargo {
            command.env_remove(name);
        }
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        command
    }

    pub(crate) fn run_without_printing(&self, line: &str) -> Said {
        let Output {
            status,
            stdout,
            stderr,
        } = self
            .command("setpriv")
            .args(bash_line(LIMIT, line))
            .output()
            .expect("bash");
        Said {
            is_success: status.success(),
            output: String::from_utf8_lossy(&stdout).into_owned(),
            errors: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Runs a line that must succeed and must not delete nothing, and returns its output.
    #[track_caller]
    pub(crate) fn must(&self, line: &str) -> String {
        let said = self.run(line);
        // kubectl succeeds if a selector selects nothing.
        let deleted_nothing = line.contains(" delete ")
            && [&said.output, &said.errors]
                .iter()
                .any(|it| it.contains("No resources found"));
        assert!(
            said.is_success && !deleted_nothing,
            "$ {line}\n{}\n{}\n{}",
            said.output,
            said.errors,
            self.state()
        );
        said.output
    }

    /// Runs a line that must fail, and returns its error.
    #[track_caller]
    pub(crate) fn must_fail(&self, line: &str) -> String {
        let said = self.run(line);
        assert!(!said.is_success, "$ {line}\n{}", said.output);
        said.errors
    }

    /// Runs a line and prints its output.
    pub(crate) fn show(&self, line: &str) {
        let said = self.run(line);
        println!("{}{}", said.output, said.errors);
    }

    /// Repeats a line until it prints `wanted`, for at most `limit`.
    #[track_caller]
    pub(crate) fn until(&self, line: &str, wanted: &str, limit: Duration) {
        let began = Instant::now();
        loop {
            let said = self.run_without_printing(line);
            if said.is_success && said.output.trim() == wanted {
                println!(
                    "$ {line}  # {wanted:?} after {:.1} s",
                    began.elapsed().as_secs_f32()
                );
                return;
            }
            assert!(
                began.elapsed() < limit,
                "$ {line}\nis not {wanted:?} after {limit:?} but {}{}\n{}",
                said.output,
                said.errors,
                self.state()
            );
            thread::sleep(POLL);
        }
    }

    /// Returns the first things to look at after a failure.
    fn state(&self) -> String {
        let said = self.run(
            "kubectl get pods,csv,installplans -A -o wide; \
             kubectl get clusterextensions,clustercatalogs \
                 -o jsonpath='{range .items[*]}{.metadata.name}: {.status.conditions}{\"\\n\"}{end}'; \
             kubectl get events -A --sort-by=.lastTimestamp | tail -n 25; \
             kubectl logs -n quartet-operator-system --tail=20 --prefix \
                 -l control-plane=controller-manager",
        );
        said.output + &said.errors
    }
}
