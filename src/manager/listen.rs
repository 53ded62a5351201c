//! The listeners of the process: their addresses are bound before anything starts, so that no
//! reconcile is cut short by a port that is taken. What is served there is not known here.

use std::io;

use tokio::net::TcpListener;

use crate::config::BindAddress;

/// An address that could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {purpose} ({flag})")]
pub struct BindError {
    /// What was to be served, e.g. `health probes`.
    pub purpose: &'static str,
    /// The flag that names the address.
    pub flag: &'static str,
    /// The address.
    pub address: BindAddress,
    /// What the system said.
    pub source: io::Error,
}

/// Listens on `address`; without a host, on every interface, by IPv6 and IPv4 where the
/// system has both.
async fn bind(
    purpose: &'static str,
    flag: &'static str,
    address: &BindAddress,
) -> Result<TcpListener, BindError> {
    let listener = match &address.host {
        Some(host) => TcpListener::bind((host.as_str(), address.port)).await,
        // Linux makes an IPv6 wildcard socket serve IPv4 as well unless net.ipv6.bindv6only
        // is set; a system without IPv6 has no such socket at all.
        None => match TcpListener::bind(("::", address.port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind(("0.0.0.0", address.port)).await
            }
            bound => bound,
        },
    };
    listener.map_err(|source| BindError {
        purpose,
        flag,
        address: address.clone(),
        source,
    })
}

/// As [`bind`], with a line in the log; `None` where there is no address.
pub(super) async fn listen(
    purpose: &'static str,
    flag: &'static str,
    address: &Option<BindAddress>,
) -> Result<Option<TcpListener>, BindError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = bind(purpose, flag, address).await?;
    let address = listener
        .local_addr()
        .map_or_else(|_| address.to_string(), |it| it.to_string());
    tracing::info!(purpose, address, "listening");
    Ok(Some(listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_reported_with_its_address_and_flag() {
        let any = BindAddress {
            host: Some("127.0.0.1".to_owned()),
            port: 0,
        };
        let listener = bind("tests", "--none", &any).await.unwrap();
        let local = listener.local_addr().unwrap();
        let address = BindAddress {
            port: local.port(),
            ..any
        };
        let error = bind("tests", "--none", &address).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {local} for tests (--none)")
        );
    }
}
