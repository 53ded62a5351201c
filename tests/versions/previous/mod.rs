//! The previous release: its real binary, installed as users install it, and what it leaves
//! behind. The binary is built from its commit by `hack/previous.sh`, once; what it left is
//! committed, so that `make test` needs no build.

mod captured;
mod installation;
mod load;
mod rolling;
