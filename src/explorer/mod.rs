//! The explorer: the real controllers against a model of the API server (`tools/modelapi`), in
//! process, on one thread and under paused time. For each kind and each life of a resource it
//! runs every plan with one fault, a sample of them in `cargo test`, all and more in
//! `make explore`. The same plan gives the same run, to the last event.
//!
//! [`life`] what users do; [`plan`] what goes wrong; [`wire`] how; [`run`] the run;
//! [`oracle`] what must hold; [`campaign`] which plans.

mod campaign;
#[path = "../../tests/support/trusted/compare.rs"]
mod compare;
mod life;
mod oracle;
mod plan;
mod run;
pub(crate) mod twins;
mod wire;
