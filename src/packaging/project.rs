//! The publisher of the product and its repositories, from `project.yaml`. Data only.

use std::sync::LazyLock;

use serde::Deserialize;

/// The content of `project.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Project {
    /// URL of the source repository.
    pub(crate) repository: String,
    /// Registry path of the manager's image; the paths of bundle and catalog begin with it.
    pub(crate) images: String,
    /// Name of the maintainer.
    pub(crate) maintainer: String,
    /// Email address of the maintainer.
    pub(crate) email: String,
    reviewers: String,
}

impl Project {
    /// Accounts that review pull requests to the community catalogs.
    pub(crate) fn reviewers(&self) -> Vec<&str> {
        self.reviewers.split(',').map(str::trim).collect()
    }
}

/// The project. Empty if the file is invalid, which a test excludes.
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
