//! The listeners of the process. All addresses are bound before the other parts start, so that a port
//! in use interrupts no reconcile. Independent of the protocols.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use crate::config::BindAddress;

/// Raises the limit of open files to the largest that the process may have, as programs in Go do. The
/// limit of a container is often 1024, for which the connections of clients are too many: without a free
/// file none is accepted.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        let limit = limit.current;
        tracing::warn!(%error, limit, "cannot raise the limit of open files (RLIMIT_NOFILE)");
    }
}

/// An address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {purpose} ({flag})")]
pub struct BindError {
    /// The purpose, e.g. `health probes`.
    pub purpose: &'static str,
    /// The flag that sets the address.
    pub flag: &'static str,
    /// The address.
    pub address: BindAddress,
    /// The error of the operating system.
    pub source: io::Error,
}

/// Listens on `address`. Without a host, listens on every interface, with IPv6 and IPv4 if the system
/// has both.
async fn bind(
    purpose: &'static str,
    flag: &'static str,
    address: &BindAddress,
) -> Result<TcpListener, BindError> {
    let listener = match &address.host {
        Some(host) => TcpListener::bind((host.as_str(), address.port)).await,
        // On Linux, an IPv6 wildcard socket also serves IPv4 unless net.ipv6.bindv6only is set. A
        // system without IPv6 has no such socket.
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

/// As [`bind`], with a log line; `None` if there is no address.
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
