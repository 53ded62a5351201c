//! `devcluster demo`: the four operators from an empty cluster to garbage collection, as a
//! transcript of commands that can be repeated by hand. It succeeds only if every shown result has
//! occurred.

mod environment;
mod samples;
mod transcript;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use devcluster::{Cluster, Options};

use crate::background;
use crate::demo::environment::DemoEnv;
use crate::demo::samples::{MEMCACHED, SAMPLES};
use crate::demo::transcript::{print_indented, took};

/// Both versions of every kind.
const DEFINITIONS: &str = "config/crd";

/// The Memcached in its original version, and in the stored one. Without a version, kubectl uses
/// the new one.
const OLD: &str = "memcacheds.v1alpha1.cache.example.com";
const NEW: &str = "memcacheds.v1.cache.example.com";

/// The size that the Memcached sample is scaled to.
const SCALED: usize = 5;

/// The next size, set through the original version.
const RESCALED: usize = 4;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave cluster and manager running until `devcluster down`
    #[arg(long)]
    keep: bool,
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    manager: PathBuf,
    /// The folder that holds config/
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// The process behind --keep
    #[arg(long, hide = true)]
    held: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if !arguments.manager.is_file() {
        let manager = arguments.manager.display();
        return Err(format!("{manager} is missing; `cargo build --release` makes it").into());
    }
    if arguments.keep && !arguments.held {
        let again: [OsString; 7] = [
            "demo".into(),
            "--keep".into(),
            "--held".into(),
            "--manager".into(),
            arguments.manager.clone().into(),
            "--root".into(),
            arguments.root.clone().into(),
        ];
        return background::start_holder(&again);
    }
    if arguments.held {
        background::leave_terminal()?;
    }
    perform(arguments)?;
    Ok(ExitCode::SUCCESS)
}

fn perform(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let interrupted = devcluster::interrupt_flag()?;

    println!("# A Kubernetes of our own, with four kinds of resources more");
    let options = Options {
        interrupted: Arc::clone(&interrupted),
        ..Options::default()
    };
    let cluster = Cluster::start_api_server(options)?;
    took("etcd and kube-apiserver started", began.elapsed());
    // Here, because the garbage collector discovers new kinds only every 30 s.
    let installing = Instant::now();
    println!("$ kubectl apply -k {DEFINITIONS}");
    print_indented(&cluster.install_definitions(&arguments.root.join(DEFINITIONS))?);
    took("established", installing.elapsed());
    let starting = Instant::now();
    cluster.start_controllers()?;
    took(
        "controller-manager, scheduler and two kwok nodes started",
        starting.elapsed(),
    );

    let mut env = DemoEnv::new(&cluster, &interrupted, arguments.root.clone());
    if let Err(error) = play(&mut env, arguments) {
        // Ctrl-C has also ended the running kubectl, whose error would mislead.
        if interrupted.load(Ordering::Relaxed) {
            return Err(devcluster::Error::Interrupted.into());
        }
        if !matches!(error.downcast_ref(), Some(devcluster::Error::Ended { .. })) {
            env.print_manager_log();
        }
        return Err(error);
    }
    if arguments.held {
        println!("\n# All of it happened. Cluster and manager stay until `make demo-down`;");
        println!("# the manager's log is {}", env.manager_log().display());
        background::settle(&cluster, &interrupted)?;
        return env.stop_manager();
    }
    println!("\n# The end");
    env.stop_manager()?;
    drop(env);
    drop(cluster);
    took(
        "all of it happened, and nothing is left running",
        began.elapsed(),
    );
    Ok(())
}

fn play(env: &mut DemoEnv<'_>, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    println!("\n# One manager for all four");
    let began = Instant::now();
    env.start_manager(&arguments.manager)?;
    took("ready, and called by the API server", began.elapsed());

    println!("\n# One resource of each kind");
    let began = Instant::now();
    for sample in &SAMPLES {
        env.kubectl(&["apply", "-f", sample.file])?;
    }
    for sample in &SAMPLES {
        let status = env.wait_until_ready(sample, sample.pods)?;
        took(
            &format!("{} {} is Ready: {status}", sample.kind, sample.name),
            began.elapsed(),
        );
    }
    env.kubectl(&["get", "quartet"])?;
    env.kubectl(&["get", "deployments,services,pods"])?;

    println!("\n# Scaling");
    let began = Instant::now();
    let replicas = format!("--replicas={SCALED}");
    env.kubectl(&["scale", "memcached", MEMCACHED.name, &replicas])?;
    let status = env.wait_until_ready(&MEMCACHED, SCALED)?;
    took(&status, began.elapsed());

    show_both_versions(env)?;
    show_refusals(env)?;

    println!("\n# Deletion takes everything along");
    let children = env.children_of(&MEMCACHED)?;
    if children.len() <= RESCALED {
        return Err(format!("{RESCALED} pods and a Deployment expected, not {children:?}").into());
    }
    let began = Instant::now();
    env.kubectl(&["delete", "-f", MEMCACHED.file])?;
    env.wait_until_gone(&children)?;
    took(
        &format!("Deployment and {RESCALED} pods garbage-collected"),
        began.elapsed(),
    );
    Ok(())
}

/// Objects written in one version are read in the other, and an edit through the original one keeps
/// the fields that it lacks.
fn show_both_versions(env: &mut DemoEnv<'_>) -> Result<(), Box<dyn Error>> {
    println!("\n# One object, in the version you know and in the new one");
    let began = Instant::now();
    let memory = r#"{"spec":{"memory":128}}"#;
    env.kubectl(&["patch", NEW, MEMCACHED.name, "--type=merge", "-p", memory])?;
    let size = format!(r#"{{"spec":{{"size":{RESCALED}}}}}"#);
    env.kubectl(&["patch", OLD, MEMCACHED.name, "--type=merge", "-p", &size])?;
    for (resource, told) in [
        (OLD, vec![format!("size: {RESCALED}")]),
        (
            NEW,
            vec!["memory: 128".to_owned(), format!("replicas: {RESCALED}")],
        ),
    ] {
        let spec = env.kubectl_spec(&["get", resource, MEMCACHED.name, "-o", "yaml"])?;
        if spec.lines().map(str::trim).ne(told) {
            return Err(format!("{resource} says {spec:?}").into());
        }
    }
    let status = env.wait_until_ready(&MEMCACHED, RESCALED)?;
    took(&format!("rolled out: {status}"), began.elapsed());
    Ok(())
}

/// Invalid values are rejected by the schema, or by our webhook if a schema cannot.
fn show_refusals(env: &DemoEnv<'_>) -> Result<(), Box<dyn Error>> {
    println!("\n# A mistake is refused by the API server, in the field's name");
    let negative = r#"{"spec":{"size":-1}}"#;
    let mistakes: [(&[&str], &str); 2] = [
        (
            &["patch", OLD, MEMCACHED.name, "--type=merge", "-p", negative],
            "spec.size",
        ),
        (
            &["scale", "memcached", MEMCACHED.name, "--replicas=5000"],
            "spec.replicas",
        ),
    ];
    for (command, field) in mistakes {
        let refusal = env.kubectl_refused(command)?;
        if !refusal.contains(field) {
            return Err(format!("the rejection does not name {field}").into());
        }
    }
    Ok(())
}
