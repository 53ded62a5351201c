//! A connection that can be cut off from the network: no bytes and no end pass in either direction
//! any more, as when a firewall has dropped its state.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The network: how often its state changed. An odd number means that it is cut.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network(Arc<AtomicU64>);

impl Network {
    /// Cuts off every connection, and new ones until [`Network::mend`].
    pub(crate) fn cut(&self) {
        self.0.fetch_or(1, Ordering::SeqCst);
    }

    /// Lets new connections through. Connections that were cut off stay cut off.
    pub(crate) fn mend(&self) {
        let next = |cuts: u64| (cuts % 2 == 1).then_some(cuts.wrapping_add(1));
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    fn cuts(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A connection of the [`Network`].
pub(crate) struct Gate {
    stream: TcpStream,
    network: Network,
    /// The number of cuts when it was opened.
    born: u64,
}

impl Gate {
    pub(crate) fn new(stream: TcpStream, network: Network) -> Self {
        let born = network.cuts();
        Gate {
            stream,
            network,
            born,
        }
    }

    /// A task that waits here is never woken: there is no event to wake it for.
    fn is_cut_off(&self) -> bool {
        self.born % 2 == 1 || self.network.cuts() != self.born
    }
}

impl AsyncRead for Gate {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_cut_off() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Gate {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_cut_off() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_cut_off() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_cut_off() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
