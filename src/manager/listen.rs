//! The listeners of the process. All addresses are bound before the other parts start, so that a port
//! in use interrupts no reconcile. Independent of the protocols.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// Listens on `address`, if there is one. Without a host, listens on every interface.
pub(super) async fn listen(
    purpose: &'static str,
    flag: &'static str,
    address: &Option<BindAddress>,
) -> Result<Option<TcpListener>, BindError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let bound = match &address.host {
        Some(host) => TcpListener::bind((host.as_str(), address.port)).await,
        // On Linux, an IPv6 wildcard socket also serves IPv4 unless net.ipv6.bindv6only is set. A
        // system without IPv6 has no such socket.
        None => {
            let every = [
                IpAddr::from(Ipv6Addr::UNSPECIFIED),
                Ipv4Addr::UNSPECIFIED.into(),
            ];
            let every = every.map(|host| SocketAddr::new(host, address.port));
            TcpListener::bind(&every[..]).await
        }
    };
    let listener = bound.map_err(|source| BindError {
        purpose,
        flag,
        address: address.clone(),
        source,
    })?;
    let local = listener.local_addr().map(|local| local.to_string());
    let address = local.unwrap_or_else(|_| address.to_string());
    tracing::info!(purpose, address, "listening");
    Ok(Some(listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_reported_with_its_address_and_flag() {
        let on = |port| BindAddress {
            host: Some("127.0.0.1".to_owned()),
            port,
        };
        let listener = listen("tests", "--none", &Some(on(0))).await.unwrap();
        let local = listener.as_ref().unwrap().local_addr().unwrap();
        let error = listen("tests", "--none", &Some(on(local.port()))).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            format!("cannot listen on {local} for tests (--none)")
        );
    }
}
