//! The product on a node that runs containers: installed as users install it, from images in
//! a registry to answers of its pods. Run by `make test-e2e`, as root.
//!
//! One cluster serves all tests, one after another; each leaves it as it found it. What a test
//! types is what a user types, and is printed with its time.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "real time passes here"
)]

mod bundle;
mod node;
mod operands;
mod plain;
mod shell;

use node::Node;

/// In this order, since each is the only one who installs the product at a time.
#[test]
#[ignore = "needs root and a node of its own: make test-e2e"]
fn the_product_on_a_real_node() {
    let node = Node::start();
    node.images();
    bundle::images_by_digest_when_asked(&node);
    plain::installed_from_one_file(&node);
    plain::deployed_and_undeployed(&node);
    node.olm();
    bundle::run_bundle_uses_upgrades_and_cleans_up(&node);
    bundle::catalog_installs_and_upgrades(&node);
}
