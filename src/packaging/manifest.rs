//! A generated file, and serialization to YAML: stable, sorted by name, and safe for YAML 1.1
//! parsers, for which a bare `yes` or `12:30` is not a string.

use std::error::Error;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Number, Value};

/// A generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Path below the output directory, e.g. `crd/kustomization.yaml`.
    pub path: PathBuf,
    /// The content.
    pub text: String,
}

/// A file cannot be read, parsed, generated or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}: {source}")]
pub struct ManifestError {
    action: &'static str,
    path: PathBuf,
    source: Box<dyn Error + Send + Sync>,
}

impl ManifestError {
    /// Wraps the cause of a failed `action` on the file at `path`.
    pub(super) fn on<E: Into<Box<dyn Error + Send + Sync>>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| Self {
            action,
            path,
            source: source.into(),
        }
    }
}

impl Manifest {
    /// A file with this text.
    pub(super) fn new(path: impl Into<PathBuf>, text: String) -> Self {
        let path = path.into();
        Self { path, text }
    }

    /// One object, as a YAML document with a leading `---`, as in controller-gen.
    ///
    /// # Errors
    /// `object` has no JSON or YAML form.
    pub fn object(
        path: impl Into<PathBuf>,
        object: &impl Serialize,
    ) -> Result<Self, ManifestError> {
        Self::with_heading(path, "---\n", object)
    }

    /// One object below `heading`, which contains comments.
    ///
    /// # Errors
    /// `object` has no JSON or YAML form.
    pub fn with_heading(
        path: impl Into<PathBuf>,
        heading: &str,
        object: &impl Serialize,
    ) -> Result<Self, ManifestError> {
        let path = path.into();
        // Through JSON, whose objects are sorted by name.
        let value = serde_json::to_value(object).map_err(ManifestError::on("serialize", &path))?;
        let yaml = serde_saphyr::to_string(&whole_numbers(value))
            .map_err(ManifestError::on("serialize", &path))?;
        Ok(Self::new(path, format!("{heading}{yaml}")))
    }

    /// Writes the file below `root`, and creates its directories.
    ///
    /// # Errors
    /// A directory or the file cannot be written.
    pub fn write(&self, root: &Path) -> Result<(), ManifestError> {
        let path = root.join(&self.path);
        let folder = path.parent().unwrap_or(root);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, &self.text))
            .map_err(ManifestError::on("write", path.clone()))
    }

    /// Reports whether the file below `root` has other content or does not exist.
    pub fn is_stale(&self, root: &Path) -> bool {
        std::fs::read_to_string(root.join(&self.path)).ok().as_ref() != Some(&self.text)
    }
}

/// k8s-openapi stores bounds as floats; without this, `maximum` would be `65535.0`.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole_number(&number).unwrap_or(number)),
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (name, whole_numbers(value)))
                .collect(),
        ),
        other => other,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "checked to be whole and within 2^53")]
fn whole_number(number: &Number) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < EXACT).then(|| Number::from(float as i64))
}

/// `files` in `folder`.
pub(super) fn below(
    folder: impl AsRef<Path>,
    files: impl IntoIterator<Item = Manifest>,
) -> Vec<Manifest> {
    let below = |file: Manifest| Manifest {
        path: folder.as_ref().join(file.path),
        ..file
    };
    files.into_iter().map(below).collect()
}
