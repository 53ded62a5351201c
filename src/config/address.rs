//! Addresses to listen on, in the notation of Go's `net.Listen`, as in existing manifests:
//! `:8081`, `127.0.0.1:8081`, `[::1]:8081`, `localhost:8081`, and `0` for none. Parses only; does
//! not resolve or bind.

use std::fmt;
use std::str::FromStr;

/// A host and port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindAddress {
    /// A name or an IP address; `None` means all interfaces, IPv6 and IPv4.
    pub host: Option<String>,
    /// The port; 0 lets the system choose one, which is then logged.
    pub port: u16,
}

/// The text is not an address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("give host:port, :port for every interface, or 0 to turn it off")]
pub struct InvalidAddress;

/// An address, or `0` for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionalAddress(pub(super) Option<BindAddress>);

impl FromStr for OptionalAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        match text {
            "0" => Ok(Self(None)),
            address => address.parse().map(Some).map(Self),
        }
    }
}

impl FromStr for BindAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidAddress)?;
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidAddress);
        }
        let port = port.parse().map_err(|_| InvalidAddress)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(InvalidAddress)?,
            // An IPv6 address without brackets cannot be separated from its port.
            None if host.contains(':') => return Err(InvalidAddress),
            None => host,
        };
        if host
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || c == '/')
        {
            return Err(InvalidAddress);
        }
        let host = (!host.is_empty()).then(|| host.to_owned());
        Ok(Self { host, port })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            Some(host) if host.contains(':') => write!(formatter, "[{host}]:{}", self.port),
            Some(host) => write!(formatter, "{host}:{}", self.port),
            None => write!(formatter, ":{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_host_is_every_interface() {
        let address: BindAddress = ":8081".parse().unwrap();
        assert_eq!(
            address,
            BindAddress {
                host: None,
                port: 8081
            }
        );
    }

    #[test]
    fn addresses_are_printed_as_they_are_typed() {
        for text in [":8081", "127.0.0.1:0", "[::1]:65535", "localhost:8081"] {
            assert_eq!(text.parse::<BindAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn zero_turns_a_server_off() {
        assert_eq!("0".parse(), Ok(OptionalAddress(None)));
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in [
            "",
            "8081",
            ":",
            ":http",
            ":65536",
            ":+80",
            "::1:80",
            "[::1:80",
            "http://a:80",
            "a b:80",
        ] {
            assert_eq!(
                text.parse::<OptionalAddress>(),
                Err(InvalidAddress),
                "{text:?}"
            );
        }
    }
}
