//! `devcluster demo`: the main job before the reader's eyes, from nothing to four operators
//! at work, as a transcript of commands that can be repeated by hand. It succeeds only if
//! each thing it shows has happened.

mod samples;
mod stage;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use devcluster::{Cluster, Options};

use crate::demo::samples::{MEMCACHED, SAMPLES};
use crate::demo::stage::{Stage, print_indented, took};
use crate::{background, interrupt};

/// The kinds' old versions alone, which need no conversion webhook.
const DEFINITIONS: &str = "config/crd-seed-only";

/// The size that the Memcached sample is scaled to.
const SCALED: usize = 5;

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
    let interrupted = interrupt::flag()?;

    println!("# A Kubernetes of our own, with four kinds of resources more");
    let options = Options {
        interrupted: Arc::clone(&interrupted),
        ..Options::default()
    };
    let cluster = Cluster::start_api_server(options)?;
    took("etcd and kube-apiserver started", began.elapsed());
    // Here, because the garbage collector looks for new kinds every 30 s only.
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

    let mut stage = Stage::new(&cluster, &interrupted, arguments.root.clone());
    if let Err(error) = play(&mut stage, arguments) {
        // Ctrl-C ended the kubectl of the moment too, whose complaint tells nothing.
        if interrupted.load(Ordering::Relaxed) {
            return Err(devcluster::Error::Interrupted.into());
        }
        if !matches!(error.downcast_ref(), Some(devcluster::Error::Ended { .. })) {
            stage.print_manager_log();
        }
        return Err(error);
    }
    if arguments.held {
        println!("\n# All of it happened. Cluster and manager stay until `make demo-down`;");
        println!("# the manager's log is {}", stage.manager_log().display());
        background::settle(&cluster, &interrupted)?;
        return stage.stop_manager();
    }
    println!("\n# The end");
    stage.stop_manager()?;
    drop(stage);
    drop(cluster);
    took(
        "all of it happened, and nothing is left running",
        began.elapsed(),
    );
    Ok(())
}

fn play(stage: &mut Stage<'_>, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    println!("\n# One manager for all four");
    let began = Instant::now();
    stage.start_manager(&arguments.manager)?;
    took("ready", began.elapsed());

    println!("\n# One resource of each kind");
    let began = Instant::now();
    for sample in &SAMPLES {
        stage.kubectl(&["apply", "-f", sample.file])?;
    }
    for sample in &SAMPLES {
        let status = stage.wait_until_ready(sample, sample.pods)?;
        took(
            &format!("{} {} is Ready: {status}", sample.kind, sample.name),
            began.elapsed(),
        );
    }
    stage.kubectl(&["get", "quartet"])?;
    stage.kubectl(&["get", "deployments,services,pods"])?;

    println!("\n# Scaling");
    let began = Instant::now();
    let replicas = format!("--replicas={SCALED}");
    stage.kubectl(&["scale", "memcached", MEMCACHED.name, &replicas])?;
    let status = stage.wait_until_ready(&MEMCACHED, SCALED)?;
    took(&status, began.elapsed());

    println!("\n# A mistake is refused by the API server, in the field's name");
    let mistake = r#"{"spec":{"size":-1}}"#;
    let refusal = stage.kubectl_refused(&[
        "patch",
        "memcached",
        MEMCACHED.name,
        "--type=merge",
        "-p",
        mistake,
    ])?;
    if !refusal.contains("spec.size") {
        return Err("the refusal does not name spec.size".into());
    }

    println!("\n# Deletion takes everything along");
    let children = stage.children_of(&MEMCACHED)?;
    if children.len() <= SCALED {
        return Err(format!("{SCALED} pods and a Deployment expected, not {children:?}").into());
    }
    let began = Instant::now();
    stage.kubectl(&["delete", "-f", MEMCACHED.file])?;
    stage.wait_until_gone(&children)?;
    took(
        &format!("Deployment and {SCALED} pods garbage-collected"),
        began.elapsed(),
    );
    Ok(())
}
