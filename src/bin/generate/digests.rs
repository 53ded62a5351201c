//! Resolves image tags to the digests that their registries have now. Runs skopeo, which supports
//! the login methods of all registries.

use std::io;
use std::process::Command;

use quartet_operator::packaging::release::{Release, image_parts};

/// Timeout of a request to a registry, in seconds.
const TIMEOUT: &str = "60s";

/// The digest of an image cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DigestError {
    #[error(
        "cannot run skopeo to read the digest of {image} ({source}): install it, or leave USE_IMAGE_DIGESTS out"
    )]
    NoSkopeo { image: String, source: io::Error },
    #[error("cannot read the digest of {image}: {reason}")]
    Unreachable { image: String, reason: String },
}

/// Replaces the tag of every image of `release` that its pods run by the digest.
///
/// # Errors
/// [`DigestError`]: the first image whose digest cannot be resolved.
pub(crate) fn resolve(release: &mut Release) -> Result<(), DigestError> {
    let operands = release.operands.iter_mut().map(|it| &mut it.image);
    for image in [&mut release.image].into_iter().chain(operands) {
        *image = by_digest(image)?;
    }
    Ok(())
}

/// The image with its digest.
///
/// # Errors
/// [`DigestError`]: the digest cannot be resolved.
pub(crate) fn by_digest(image: &str) -> Result<String, DigestError> {
    if image.contains('@') {
        return Ok(image.to_owned());
    }
    let unreachable = |reason: &str| DigestError::Unreachable {
        image: image.to_owned(),
        reason: reason.trim().to_owned(),
    };
    // For a multi-platform image, the digest of its list.
    let skopeo = Command::new("skopeo")
        .args(["--command-timeout", TIMEOUT, "inspect", "--no-tags"])
        .args(["--format", "{{.Digest}}"])
        .arg(format!("docker://{image}"))
        .output()
        .map_err(|source| DigestError::NoSkopeo {
            image: image.to_owned(),
            source,
        })?;
    if !skopeo.status.success() {
        return Err(unreachable(&String::from_utf8_lossy(&skopeo.stderr)));
    }
    let digest = String::from_utf8_lossy(&skopeo.stdout).trim().to_owned();
    if !digest.starts_with("sha256:") {
        return Err(unreachable(&format!("skopeo printed {digest:?}")));
    }
    let (repository, _, _) = image_parts(image);
    Ok(format!("{repository}@{digest}"))
}
