//! Every fault of the proxy, with a small server in place of an API server: what the client gets,
//! and what the server has processed.
#![allow(clippy::disallowed_types)] // real network time

mod actions;
mod events;
mod upstream;
