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
use std::time::Instant;

use devcluster::{Cluster, Options};

use crate::demo::samples::{MEMCACHED, SAMPLES};
use crate::demo::stage::{Stage, took};
use crate::{background, interrupt};

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

    println!("# A Kubernetes of our own");
    let cluster = Cluster::start(Options {
        interrupted: Arc::clone(&interrupted),
        nodes: 2,
    })?;
    took(
        "etcd, kube-apiserver, controller-manager, scheduler and 2 kwok nodes",
        began.elapsed(),
    );

    let mut stage = Stage::new(&cluster, &interrupted, arguments.root.clone());
    if let Err(error) = play(&mut stage, arguments) {
        stage.print_manager_log();
        return Err(error);
    }
    if arguments.held {
        println!("\n# All of it happened. The cluster and the manager stay until `make demo-down`");
        background::settle(&cluster, &interrupted, || stage.check())?;
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
    println!("\n# Four kinds of resources");
    let began = Instant::now();
    let definitions = stage.kubectl(&["apply", "-k", "config/crd-seed-only"])?;
    let names = definitions
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let mut wait = vec!["wait", "--for=condition=Established", "--timeout=60s"];
    wait.extend(names);
    stage.kubectl_quietly(&wait)?;
    took("established", began.elapsed());

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
