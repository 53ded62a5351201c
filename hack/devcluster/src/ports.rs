//! Free ports that stay free while their owner is restarted.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::error::{Doing, Result};

/// Below the ports that the kernel gives to outgoing connections (32768 and up): one of
/// those could take ours between the end of a component and its restart. And below the
/// NodePorts, which a test may want for itself.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A loopback port that nobody listens on, taken at random so that clusters which start at
/// the same moment do not choose the same one.
///
/// # Errors
/// A thousand tries found none.
pub fn free_port() -> Result<u16> {
    (0..1000)
        .map(|attempt: u32| RandomState::new().hash_one(attempt) % u64::from(COUNT))
        .filter_map(|offset| u16::try_from(offset).ok())
        .map(|offset| FIRST + offset)
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .ok_or_else(|| io::Error::from(io::ErrorKind::AddrInUse))
        .doing(|| "looking for a free port".to_owned())
}
