//! References to images.

use std::process::Command;

use crate::Error;

/// Repository, tag and digest of an image; absent parts are empty.
pub(crate) fn image_parts(image: &str) -> (&str, &str, &str) {
    let (named, digest) = image.split_once('@').unwrap_or((image, ""));
    match named.rsplit_once(':') {
        // A colon before a slash separates the port of the registry.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag, digest),
        _ => (named, "", digest),
    }
}

/// The image with the digest that its registry has now. Runs skopeo, which supports the login methods
/// of all registries. For a multi-platform image, it is the digest of its list.
pub(crate) fn by_digest(image: &str) -> Result<String, Error> {
    if image.contains('@') {
        return Ok(image.to_owned());
    }
    let failed = format!("cannot read the digest of {image} with skopeo");
    let skopeo = Command::new("skopeo")
        .args(["--command-timeout=60s", "inspect", "--no-tags"])
        .args(["--format={{.Digest}}", &format!("docker://{image}")])
        .output()
        .map_err(Error::of(&failed))?;
    if !skopeo.status.success() {
        return Err(Error::of(failed)(String::from_utf8_lossy(&skopeo.stderr)));
    }
    let (repository, _, _) = image_parts(image);
    let digest = String::from_utf8_lossy(&skopeo.stdout);
    Ok(format!("{repository}@{}", digest.trim()))
}
