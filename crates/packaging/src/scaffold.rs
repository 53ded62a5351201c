//! The command `quartet-packaging`: writes a project, or a kind of one. Nothing that exists is overwritten.
//!
//! The files are those of `templates`: links to files of this repository, in which names are replaced
//! (`renamed.yaml`), and files with the suffix `.template`, in which placeholders are replaced.

mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{ArgAction, Parser};
use serde_json::Value;

use crate::template::{list, write_files};
use crate::{Error, Files};
use names::{Words, of_kind, of_project};

const RENAMED: &str = include_str!("../templates/renamed.yaml");
/// The list of kinds in a project.
const KINDS: &str = "src/kinds/mod.rs";
/// The settings of its owner.
const SETTINGS: &str = "packaging/project.yaml";

/// Write the project of an operator, or add a kind to it.
#[derive(Debug, Parser)]
#[command(name = "quartet-packaging", version)]
enum Arguments {
    /// Write a project with one kind, as `kubebuilder init` and `kubebuilder create api` do.
    ///
    /// The kind has one or two versions with conversion, validation and defaults. Its operator runs pods of one
    /// image. The project has RBAC rules, kustomize overlays, a Helm chart, a bundle and a catalog for OLM,
    /// and a Makefile with the targets of kubebuilder.
    #[command(
        after_help = "Example:\n  quartet-packaging new ../cache-operator --domain example.com \
                            --group cache --kind Cache --versions v1alpha1,v1"
    )]
    New(New),
    /// Add a kind to the project in this folder, as `kubebuilder create api` does.
    ///
    /// `make manifests` then writes its manifests.
    #[command(after_help = "Example:\n  quartet-packaging add --group cache --kind Queue")]
    Add(Kind),
}

#[derive(Debug, clap::Args)]
struct New {
    /// The folder of the project. Its name is that of the project, e.g. cache-operator.
    folder: PathBuf,
    /// Domain of the groups, e.g. example.com.
    #[arg(long)]
    domain: String,
    /// Where the crates of quartet-operator are: a checkout, the URL of a Git repository, or a version in
    /// the registry. Default: the checkout of this program, or else its version.
    #[arg(long)]
    source: Option<String>,
    /// Run `make manifests`, which compiles the project, after writing it.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    make: bool,
    #[command(flatten)]
    kind: Kind,
}

/// The names of a kind. An empty value counts as absent, since make passes empty variables.
#[derive(Debug, clap::Args)]
struct Kind {
    /// Group, e.g. cache for cache.example.com. A group with a dot is not below the domain of the project.
    #[arg(long)]
    group: String,
    /// Kind, e.g. Cache.
    #[arg(long)]
    kind: String,
    /// The original version, and the version that is stored; or the only one. Default: v1alpha1,v1.
    #[arg(long, default_value = "", hide_default_value = true)]
    versions: String,
    /// The resource in URLs and roles. Default: the kind in lower case, in the plural.
    #[arg(long, default_value = "", hide_default_value = true)]
    plural: String,
    /// Short name for kubectl. Default: two or more letters of the kind that no common type has.
    #[arg(long, default_value = "", hide_default_value = true)]
    short: String,
    /// Image of its pods, with a tag. Default: a web server that listens on port 8080.
    #[arg(long, default_value = "", hide_default_value = true)]
    image: String,
}

/// Runs the command of the arguments of the process. `templates` are the files of `templates`.
pub fn scaffold(templates: &Files) -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::New(arguments) => new(&arguments, templates),
        Arguments::Add(kind) => add(Path::new("."), &kind, templates),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quartet-packaging: {error}");
            ExitCode::FAILURE
        }
    }
}

fn new(arguments: &New, templates: &Files) -> Result<(), Error> {
    let root = std::path::absolute(&arguments.folder).map_err(Error::of("the folder"))?;
    let project = root.file_name().unwrap_or_default().to_string_lossy();
    let mut words = of_project(&project, &arguments.domain, &arguments.kind)?;
    add_source(&mut words, arguments.source.as_deref())?;
    let mut files = filled(templates, "project", &words)?;
    files.extend(filled(templates, "kind", &words)?);
    if let Some(kinds) = files.get_mut(Path::new(KINDS)) {
        *kinds = listed(kinds, &words)?;
    }
    write_new(&root, &files)?;
    if !arguments.make {
        return Ok(());
    }
    let mut make = Command::new("make");
    make.arg("-C").arg(&root).arg("manifests");
    // Of `cargo run`: the cargo of make would compile what reads them, and without them once more.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") {
            make.env_remove(&name);
        }
    }
    match make.status().map_err(Error::of("make"))? {
        status if status.success() => Ok(()),
        status => Err(Error::of("make manifests")(status)),
    }
}

fn add(root: &Path, kind: &Kind, templates: &Files) -> Result<(), Error> {
    let file = |path: &str| {
        let failed = Error::of(format!("this folder is not the root of a project: {path}"));
        fs::read_to_string(root.join(path)).map_err(failed)
    };
    let (kinds, manifest) = (file(KINDS)?, file("Cargo.toml")?);
    let unnamed = || Error("Cargo.toml has no name in [package]".to_owned());
    let project = package_name(&manifest).ok_or_else(unnamed)?;
    let settings: Value = serde_saphyr::from_str(&file(SETTINGS)?).map_err(Error::of(SETTINGS))?;
    let folder = "src/kinds";
    let files = list(&root.join(folder)).map_err(Error::of(folder))?;
    let others: Result<String, _> = files.iter().map(fs::read_to_string).collect();
    let others = others.map_err(Error::of(folder))?;
    let words = of_kind(project, settings["domain"].as_str(), kind, &others)?;
    let kinds = listed(&kinds, &words)?;
    write_new(root, &filled(templates, "kind", &words)?)?;
    fs::write(root.join(KINDS), kinds).map_err(Error::of(KINDS))
}

/// The name in the section `[package]` of a Cargo.toml.
fn package_name(manifest: &str) -> Option<&str> {
    let lines = manifest.lines().map(str::trim);
    let package = lines.skip_while(|line| !line.starts_with("[package]"));
    let package = package.skip(1).take_while(|line| !line.starts_with('['));
    let mut fields = package.filter_map(|line| line.split_once('='));
    let (_, name) = fields.find(|(field, _)| field.trim() == "name")?;
    name.split(['"', '\'']).nth(1)
}

/// The list of kinds with this one at its end.
fn listed(kinds: &str, words: &Words) -> Result<String, Error> {
    let list = kinds.split_once("\nkinds! {");
    let parts = list.and_then(|(before, list)| Some((before, list.split_once("\n}")?)));
    let Some((before, (list, after))) = parts else {
        return Err(Error(format!("{KINDS} has no list `kinds! {{ … }}`")));
    };
    let entry = words.fill("{kind}::{Kind},");
    Ok(format!("{before}\nkinds! {{{list}\n    {entry}\n}}{after}"))
}

/// The files of a folder of templates. A line, or a file, with `{one}` is only for a kind with one version, and
/// with `{two}` only for one with two.
fn filled(templates: &Files, folder: &str, words: &Words) -> Result<Files, Error> {
    let renamed: BTreeMap<String, String> =
        serde_saphyr::from_str(RENAMED).map_err(Error::of("renamed.yaml"))?;
    let renamed = renamed
        .into_iter()
        .map(|(from, to)| (from, words.fill(&to)));
    let renamed = Words(renamed.collect());
    let is_wanted = |text: &str| !text.contains("{one}") && !text.contains("{two}");
    let mut files = Files::new();
    for (path, text) in templates {
        let Ok(path) = path.strip_prefix(folder) else {
            continue;
        };
        let path = path.to_string_lossy();
        let (path, words) = match path.strip_suffix(".template") {
            Some(path) => (path, words),
            None => (&*path, &renamed),
        };
        let (path, text) = (words.fill(path), words.fill(text));
        let lines = text.split_inclusive('\n');
        if is_wanted(&path) {
            files.insert(path.into(), lines.filter(|line| is_wanted(line)).collect());
        }
    }
    Ok(files)
}

/// Writes files, none of which exists, and formats the code, whose lines are as long as its names.
fn write_new(root: &Path, files: &Files) -> Result<(), Error> {
    let existing = files.keys().filter(|path| root.join(path).exists());
    let existing: Vec<_> = existing.map(|path| path.to_string_lossy()).collect();
    if !existing.is_empty() {
        let (root, existing) = (root.display(), existing.join(", "));
        return Err(Error(format!(
            "nothing was written, because {root} has {existing}"
        )));
    }
    write_files(root, files)?;
    println!("wrote {} files to {}", files.len(), root.display());
    let code = files
        .keys()
        .filter(|path| path.extension().is_some_and(|it| it == "rs"));
    // Without rustfmt, it stays as it is.
    let _ = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .args(code)
        .current_dir(root)
        .status();
    Ok(())
}

/// Adds where the crates and programs of this workspace are.
fn add_source(words: &mut Words, source: Option<&str>) -> Result<(), Error> {
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let is_checkout = |folder: &str| Path::new(folder).join("crates/packaging").exists();
    let source = source.unwrap_or(if is_checkout(checkout) {
        checkout
    } else {
        env!("CARGO_PKG_VERSION")
    });
    let field = match source {
        url if url.contains("://") => Some("git"),
        version if version.starts_with(|first: char| first.is_ascii_digit()) => Some("version"),
        _ => None,
    };
    let (source, devcluster, scaffold) = if let Some(field) = field {
        (
            format!("{field} = \"{source}\", package = \"quartet-"),
            "devcluster".to_owned(),
            "quartet-packaging".to_owned(),
        )
    } else {
        let failed = Error(format!(
            "--source {source:?} is not a checkout, a URL or a version"
        ));
        let folder = fs::canonicalize(source)
            .ok()
            .filter(|_| is_checkout(source))
            .ok_or(failed)?;
        let folder = folder.display();
        let program =
            |path| format!("cargo run --quiet --manifest-path='{folder}/{path}/Cargo.toml' --");
        let devcluster = program("tools/devcluster");
        (
            format!("path = \"{folder}/crates/"),
            format!("$(wildcard {folder}/target/debug/devcluster),{devcluster}"),
            program("crates/packaging"),
        )
    };
    words.add([
        ("source", &source),
        ("devcluster", &devcluster),
        ("scaffold", &scaffold),
    ]);
    Ok(())
}
