//! Images by digest in place of tags, as their registries have them now. Runs skopeo, since it
//! knows every registry's ways to log in; no digest is ever written by hand.

use std::io;
use std::process::Command;

use quartet_operator::packaging::Release;

/// Seconds that one registry has to answer.
const TIMEOUT: &str = "60s";

/// Why an image's digest is not known. Each names the image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DigestError {
    #[error(
        "the digest of {image} wants skopeo, which does not start ({source}): install it, or leave USE_IMAGE_DIGESTS out"
    )]
    NoSkopeo { image: String, source: io::Error },
    #[error("the digest of {image} is not to be had: {reason}")]
    Unreachable { image: String, reason: String },
}

/// Names every image of `release` that its pods run by its digest.
///
/// # Errors
/// [`DigestError`]: the first image whose digest is not to be had.
pub(crate) fn resolve(release: &mut Release) -> Result<(), DigestError> {
    let operands = release.operands.iter_mut().map(|it| &mut it.image);
    for image in [&mut release.image].into_iter().chain(operands) {
        *image = by_digest(image)?;
    }
    Ok(())
}

/// The image by its digest.
///
/// # Errors
/// [`DigestError`]: it is not to be had.
pub(crate) fn by_digest(image: &str) -> Result<String, DigestError> {
    if image.contains('@') {
        return Ok(image.to_owned());
    }
    let unreachable = |reason: &str| DigestError::Unreachable {
        image: image.to_owned(),
        reason: reason.trim().to_owned(),
    };
    // The digest of the list, where an image is one for several processors.
    let skopeo = Command::new("skopeo")
        .args([
            "--command-timeout",
            TIMEOUT,
            "inspect",
            "--no-tags",
            "--format",
            "{{.Digest}}",
        ])
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
        return Err(unreachable(&format!("skopeo says {digest:?}")));
    }
    Ok(format!("{}@{digest}", without_tag(image)))
}

/// `registry:5000/name:tag` without its tag.
fn without_tag(image: &str) -> &str {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::without_tag;

    #[test]
    fn a_port_is_no_tag() {
        assert_eq!(without_tag("registry:5000/a/b:v1"), "registry:5000/a/b");
        assert_eq!(without_tag("registry:5000/a/b"), "registry:5000/a/b");
        assert_eq!(without_tag("nginx:1.28"), "nginx");
        assert_eq!(without_tag("nginx"), "nginx");
    }
}
