//! Free ports that stay reserved until their owner listens, and while it restarts.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::error::{Doing, Result};

/// Below the ports that the kernel uses for outgoing connections (32768 and up): one of those could
/// take our port between the exit of a component and its restart. Also below the NodePorts, which a
/// test may use.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// The sockets that keep the ports of this process until it exits.
static RESERVED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Returns a free loopback port. It belongs to this process until that exits: no other call of this
/// function returns it, here or in another process, so it can be given to a program that is started
/// later, and to its successor. Until one listens, connections are refused.
///
/// # Errors
/// A thousand attempts found none.
pub fn free_port() -> Result<u16> {
    let (port, socket) = (0..1000)
        .map(|attempt: u32| RandomState::new().hash_one(attempt) % u64::from(COUNT))
        .filter_map(|offset| u16::try_from(offset).ok())
        .map(|offset| FIRST + offset)
        .find_map(|port| Some((port, reserve(port).ok()?)))
        .ok_or_else(|| io::Error::from(io::ErrorKind::AddrInUse))
        .doing(|| "looking for a free port".to_owned())?;
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    reserved.push(socket);
    Ok(port)
}

/// Returns a socket that is bound to the port and does not listen. It is bound without
/// `SO_REUSEADDR`, so only one can be. The option is set afterwards, so that another socket with
/// this option can bind and listen: the standard libraries of Rust and Go set it
/// (`inet_csk_bind_conflict` in the kernel).
fn reserve(port: u16) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_port_stays_reserved_before_while_and_after_a_program_listens() {
        let port = free_port().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port);
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        for everywhere in [false, true] {
            assert!(reserve(port).is_err(), "the port is reserved");
            let ip = [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED][usize::from(everywhere)];
            let listener = TcpListener::bind((ip, port)).unwrap();
            TcpStream::connect(address).unwrap();
            assert!(reserve(port).is_err(), "the port is reserved");
            drop(listener);
        }
    }
}
