//! Writes the files of a new project, or those of a new kind.

use std::process::ExitCode;

use include_dir::{Dir, include_dir};
use quartet_packaging::Files;

/// A part of the program, which needs no sources when it runs.
static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

fn main() -> ExitCode {
    let mut templates = Files::new();
    add(&TEMPLATES, &mut templates);
    quartet_packaging::scaffold(&templates)
}

/// Adds the files of a folder, by their paths in `templates`.
fn add(folder: &Dir<'_>, files: &mut Files) {
    for file in folder.files() {
        let text = String::from_utf8_lossy(file.contents());
        files.insert(file.path().to_owned(), text.into_owned());
    }
    folder.dirs().for_each(|folder| add(folder, files));
}
