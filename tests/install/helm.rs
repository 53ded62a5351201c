//! A real Helm, built from its module: its command, its output, and value files for it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::rendered;
use testkit::built;

/// Returns a command for the Helm of `hack/helm`, with folders of its own.
pub(crate) fn helm() -> Command {
    let mut helm = Command::new(built("hack/helm").join("helm"));
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("helm");
    for kind in ["CACHE", "CONFIG", "DATA"] {
        helm.env(format!("HELM_{kind}_HOME"), home.join(kind));
    }
    helm
}

/// Returns Helm's output, or its error.
pub(crate) fn answer(helm: &mut Command) -> Result<String, String> {
    let output = helm.output().expect("helm runs");
    let [said, failed] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if !output.status.success() {
        return Err(said + &failed);
    }
    // Helm only warns of a value that is ignored. Log lines of its client library (klog: a letter and
    // the date) are not warnings, such as a watch that is cancelled when --wait is done.
    let warnings: Vec<_> = failed.lines().filter(|line| !is_klog(line)).collect();
    assert!(warnings.is_empty(), "{warnings:?}: {said}");
    Ok(said)
}

/// Reports whether this is a line like `E1122 21:22:50.867280   23449 request.go:1198] "…"`.
fn is_klog(line: &str) -> bool {
    let header = line.split_once("] ").map_or("", |(header, _)| header);
    let mut words = header.split_whitespace();
    let level_and_date = words.next().unwrap_or_default().as_bytes();
    matches!(level_and_date, [b'I' | b'W' | b'E' | b'F', date @ ..]
        if date.len() == 4 && date.iter().all(u8::is_ascii_digit))
        && words.count() == 3
}

/// Writes `values` to a file for Helm.
pub(crate) fn value_file(values: &Value) -> PathBuf {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = rendered::scratch(&format!("values-{number}")).join("values.json");
    std::fs::write(&file, values.to_string()).expect("written");
    file
}
