//! The previous release: its real binary, installed as users install it, and the state that it
//! leaves. `hack/previous.sh` builds the binary from its commit, once; the state is committed, so
//! that `make test` needs no build.

pub(crate) mod installation;
mod load;
mod rolling;
