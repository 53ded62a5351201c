//! The URL of `--webhook-url`, and whether it is on this machine. String operations only: no name
//! resolution and no connections.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

/// `https://HOST:PORT`, to which the paths of the webhooks are appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    /// Host without brackets, for the certificate.
    host: String,
    /// Without a trailing slash.
    base: String,
}

/// A URL that the API server would reject, or one with a path, which this server does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("give https://HOST:PORT without user, path, query or fragment")]
pub struct InvalidWebhookUrl;

impl WebhookUrl {
    /// The host, a name or an IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl FromStr for WebhookUrl {
    type Err = InvalidWebhookUrl;

    fn from_str(text: &str) -> Result<Self, InvalidWebhookUrl> {
        // http::Uri ignores a fragment.
        if text.contains('#') {
            return Err(InvalidWebhookUrl);
        }
        let uri: Uri = text.parse().map_err(|_| InvalidWebhookUrl)?;
        let authority = uri.authority().ok_or(InvalidWebhookUrl)?;
        let host = without_brackets(authority.host());
        let plain = uri.scheme_str() == Some("https")
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none()
            && !authority.as_str().contains('@')
            && !host.is_empty();
        if !plain {
            return Err(InvalidWebhookUrl);
        }
        Ok(Self {
            host: host.to_owned(),
            base: format!("https://{authority}"),
        })
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.base)
    }
}

/// Whether `url` is on this machine: `localhost`, `127.0.0.0/8` or `::1`.
pub(super) fn is_on_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    let host = without_brackets(uri.host().unwrap_or_default());
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn without_brackets(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_are_all_that_a_url_may_have() {
        for (text, host, convert) in [
            (
                "https://127.0.0.1:9443",
                "127.0.0.1",
                "https://127.0.0.1:9443/convert",
            ),
            ("https://[::1]:9443/", "::1", "https://[::1]:9443/convert"),
            (
                "https://host.test",
                "host.test",
                "https://host.test/convert",
            ),
        ] {
            let url: WebhookUrl = text.parse().unwrap();
            assert_eq!(url.host(), host);
            assert_eq!(format!("{url}/convert"), convert);
        }
        for text in [
            "",
            "127.0.0.1:9443",
            "http://127.0.0.1:9443",
            "https://",
            "https://:9443",
            "https://user@127.0.0.1:9443",
            "https://127.0.0.1:9443/path",
            "https://127.0.0.1:9443?query",
            "https://127.0.0.1:9443/#fragment",
        ] {
            assert_eq!(text.parse::<WebhookUrl>(), Err(InvalidWebhookUrl), "{text}");
        }
    }

    #[test]
    fn loopback_is_known_by_name_and_by_address() {
        for url in [
            "https://127.0.0.1:6443/",
            "https://127.8.9.10:6443/",
            "https://[::1]:6443",
            "https://localhost:6443",
            "http://LOCALHOST",
        ] {
            assert!(is_on_loopback(url), "{url}");
        }
        for url in [
            "https://10.96.0.1/",
            "https://localhost.example.com:6443",
            "https://127.0.0.1.example.com",
            "https://user:127.0.0.1@example.com",
            "",
        ] {
            assert!(!is_on_loopback(url), "{url}");
        }
    }
}
