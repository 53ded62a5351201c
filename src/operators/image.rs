//! The image pull policy that Kubernetes gives a container without one. Pure.
//!
//! The API server sets the policy once, when the container is created, and keeps it if only the
//! image changes. The operator sets the field itself, so that it follows the image. The value
//! must equal the API server's, or existing pods would be rolled out again:
//! `SetDefaults_Container` in `pkg/apis/core/v1/defaults.go`, with the grammar of
//! `github.com/distribution/reference`.

use crate::api::workload::ImagePullPolicy;

/// Longest path of a repository, without its registry.
const PATH_MAX: usize = 255;
/// Prefix of the path of an image without registry and organization.
const OFFICIAL: &str = "library/";

/// `Always` for the tag `latest`, explicit or implied; `IfNotPresent` for every other tag, for a
/// digest without a tag, and for an invalid reference.
pub(super) fn default_pull_policy(image: &str) -> ImagePullPolicy {
    match is_latest(image) {
        true => ImagePullPolicy::Always,
        false => ImagePullPolicy::IfNotPresent,
    }
}

fn is_latest(image: &str) -> bool {
    let (tagged, digest) = split(image, '@');
    let (name, tag) = match tagged.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (tagged, None),
    };
    let names_latest = tag.map_or(digest.is_none(), |tag| tag == "latest");
    names_latest && is_name(name) && digest.is_none_or(is_digest) && !is_identifier(image)
}

/// The parts before and behind the first `separator`.
fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    let parts = text.split_once(separator);
    parts.map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// 64 hexadecimal digits are an image identifier, never a name.
fn is_identifier(image: &str) -> bool {
    image.len() == 64 && is_lower_hex(image)
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// An optional registry, if the part before the first slash looks like one, and a path.
fn is_name(name: &str) -> bool {
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if looks_like_registry(first) => (Some(first), rest),
        _ => (None, name),
    };
    let is_hub = matches!(registry, None | Some("docker.io" | "index.docker.io"));
    let is_official = is_hub && !path.contains('/');
    let added = if is_official { OFFICIAL.len() } else { 0 };
    path.len() + added <= PATH_MAX
        && path.split('/').all(is_path_component)
        && registry.is_none_or(|registry| is_registry(registry) || is_path_component(registry))
}

fn looks_like_registry(part: &str) -> bool {
    part == "localhost"
        || part.contains(['.', ':'])
        || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// `host`, `host:port` or `[IPv6]:port`.
fn is_registry(registry: &str) -> bool {
    if let Some(rest) = registry.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
        let is_address = !address.is_empty() && address.bytes().all(is_part);
        return is_address && (port.is_empty() || port.strip_prefix(':').is_some_and(is_number));
    }
    let (host, port) = split(registry, ':');
    host.split('.').all(is_host_label) && port.is_none_or(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_host_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(is_part)
}

/// Runs of lower-case letters and digits, with `.`, `_`, `__` or any number of `-` between.
fn is_path_component(component: &str) -> bool {
    let is_alphanumeric =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    let mut separators = component.split(is_alphanumeric);
    // `split` gives an empty part between two adjacent characters that it splits at.
    separators.next() == Some("")
        && separators.next_back() == Some("")
        && separators.all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

/// A digest algorithm that the API server knows, with the right number of digits.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, encoded)) = digest.split_once(':') else {
        return false;
    };
    let digits = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    encoded.len() == digits && is_lower_hex(encoded)
}

#[cfg(test)]
mod tests {
    use super::default_pull_policy;
    use crate::api::workload::ImagePullPolicy::{Always, IfNotPresent};

    /// The results of `parsers.ParseImageName` of Kubernetes 1.36.
    #[test]
    fn the_policy_is_the_one_that_kubernetes_gives() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let long = "a".repeat(247);
        for image in [
            "nginx".to_owned(),
            "nginx:latest".to_owned(),
            "library/nginx".to_owned(),
            "example.com/a/b".to_owned(),
            "localhost/x".to_owned(),
            "registry:5000/x".to_owned(),
            "[::1]:5000/x".to_owned(),
            "Registry/x".to_owned(),
            "a_b.c/x".to_owned(),
            "a__b-------c.d".to_owned(),
            format!("nginx:latest@{digest}"),
            long.clone(),
            // Only Docker Hub adds `library/` to a name without a slash.
            format!("registry:5000/{long}aaaaaaaa"),
            format!("docker.io/{long}"),
            format!("x/{}", &long[..245]),
        ] {
            assert_eq!(default_pull_policy(&image), Always, "{image}");
        }
        for image in [
            "nginx:1.17.1".to_owned(),
            "registry:5000".to_owned(),
            "registry:5000/x:1".to_owned(),
            format!("nginx@{digest}"),
            format!("nginx:1@{digest}"),
            // None of these is a valid reference.
            String::new(),
            "nginx:".to_owned(),
            "Nginx".to_owned(),
            "a/Nginx".to_owned(),
            "a//b".to_owned(),
            "-a".to_owned(),
            "a-".to_owned(),
            "a..b".to_owned(),
            "a___b".to_owned(),
            "a b".to_owned(),
            "é".to_owned(),
            "http://example.com/x".to_owned(),
            "registry:/x".to_owned(),
            "[::1/x".to_owned(),
            "nginx:latest@sha256:00".to_owned(),
            format!("nginx:latest@md5:{}", "0".repeat(32)),
            "0".repeat(64),
            format!("{long}a"),
            format!("docker.io/{long}a"),
            format!("registry:5000/{long}aaaaaaaaa"),
        ] {
            assert_eq!(default_pull_policy(&image), IfNotPresent, "{image}");
        }
    }
}
