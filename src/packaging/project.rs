//! Who publishes the product, and where: `project.yaml`. Data only.

use std::sync::LazyLock;

use serde::Deserialize;

/// What `project.yaml` says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Project {
    /// Where the sources are, as a URL.
    pub(crate) repository: String,
    /// The registry path of the manager's image; those of bundle and catalog begin with it.
    pub(crate) images: String,
    /// Who maintains it.
    pub(crate) maintainer: String,
    /// An address of theirs.
    pub(crate) email: String,
    reviewers: String,
}

impl Project {
    /// Accounts that review proposals to the community catalogs.
    pub(crate) fn reviewers(&self) -> Vec<&str> {
        self.reviewers.split(',').map(str::trim).collect()
    }
}

/// The project. Empty if the file is no such YAML, which a test rules out.
pub(crate) fn project() -> &'static Project {
    static PROJECT: LazyLock<Project> =
        LazyLock::new(|| serde_saphyr::from_str(FILE).unwrap_or_default());
    &PROJECT
}

const FILE: &str = include_str!("project.yaml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_everything() {
        let project: Project = serde_saphyr::from_str(FILE).unwrap();
        assert!(project.repository.starts_with("https://github.com/"));
        assert!(project.images.contains('/') && !project.images.contains(':'));
        assert!(!project.maintainer.is_empty() && project.email.contains('@'));
        assert!(project.reviewers().iter().all(|it| !it.is_empty()));
    }
}
