//! The product on a node that runs containers, from installation to the responses of its pods, with
//! images from a registry. Run by `make test-e2e`, as root.
//!
//! One cluster serves all tests, one after another; each leaves it as it found it. The tests run
//! the commands that a user types and print them with their duration.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "real time passes here")]

mod adoption;
mod any_namespace;
mod autoscaled;
mod bundle;
mod calls;
mod cert_manager;
mod community;
mod csv_deleted;
mod deletion;
mod drain;
mod helm;
mod load;
mod mirror;
mod new_project;
mod next;
mod node;
mod olm_v1;
mod operands;
mod plain;
mod predecessors;
mod programs;
mod recovery;
mod shell;
mod traffic;
#[path = "../support/trusted/mod.rs"]
mod trusted;
mod uninstall;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use node::Node;

type Phase = fn(&Node);

/// The name and the function of each phase, in the order in which they run: only one at a time has
/// the product installed.
const PHASES: &[(&str, Phase)] = &[
    ("digests", bundle::images_by_digest_when_asked),
    ("two processors", bundle::is_for_two_processors),
    ("community", community::the_proposal_becomes_a_catalog),
    ("one file", plain::installed_from_one_file),
    ("deletion", deletion::in_every_order),
    ("make deploy", plain::deployed_and_undeployed),
    ("autoscaler", autoscaled::scales_with_the_load),
    ("drain", drain::evicts_one_pod_at_a_time),
    ("flux", programs::flux),
    ("velero", programs::velero),
    ("cert-manager", cert_manager::issues_renews_and_recovers),
    ("helm", helm::installs_upgrades_rolls_back_and_uninstalls),
    ("run bundle", bundle::run_bundle_uses_upgrades_and_cleans_up),
    ("catalog", bundle::catalog_installs_and_upgrades),
    ("OLM v1", olm_v1::installs_upgrades_and_uninstalls),
    ("next way", next::every_way_after_every_other),
    ("deleted version", csv_deleted::leaves_the_resources),
    ("any namespace", any_namespace::in_the_namespace_of_a_hub),
    ("mirror", mirror::installed_from_a_mirror),
    ("adopt", adoption::by_one_file),
    ("adopt under OLM", adoption::under_olm),
    ("new project", new_project::redis_keeps_its_data),
];

/// `make test-e2e`. `PHASES` selects the phases whose names contain it, or one of its parts between commas.
#[test]
#[ignore = "needs root and a node of its own: make test-e2e"]
fn the_product_on_a_real_node() {
    let wanted = std::env::var("PHASES").unwrap_or_default();
    let phases: Vec<_> = PHASES
        .iter()
        .filter(|(name, _)| wanted.split(',').any(|part| name.contains(part)))
        .collect();
    assert!(
        !phases.is_empty(),
        "PHASES='{wanted}' matches none of {:?}",
        PHASES.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let node = Node::start();
    node.images();
    let mut red = Vec::new();
    let mut times = Vec::new();
    for (name, phase) in phases {
        println!("\n# {name}");
        if let Some(left) = recovery::left_by(&red, &node) {
            red.push(format!(
                "{name}: not run, since an earlier phase left {left:#?}"
            ));
            continue;
        }
        let began = Instant::now();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| phase(&node))) {
            red.push(format!("{name}: {}", recovery::reason(&*panic)));
            recovery::clean(&node.shell);
        }
        times.push(format!("{name}: {:.1} s", began.elapsed().as_secs_f32()));
    }
    println!("\n# {}", times.join("\n# "));
    assert!(
        red.is_empty(),
        "{} phases failed:\n{}",
        red.len(),
        red.join("\n")
    );
    let report = trusted::check(&node.cluster.audit_log());
    report.print("the node");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}
