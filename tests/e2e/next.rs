//! Each way to install, on top of the documented uninstallation of each other one.

use crate::bundle;
use crate::cert_manager::trusted;
use crate::helm;
use crate::node::Node;
use crate::olm_v1;
use crate::plain;
use crate::shell::Shell;
use crate::uninstall::{self, Before};

struct Way {
    name: &'static str,
    install: fn(&Node),
    uninstall: fn(&Shell),
}

const WAYS: [Way; 5] = [
    Way {
        name: "one file",
        install: plain::install,
        uninstall: |shell| uninstall::by_row(shell, uninstall::ONE_FILE),
    },
    Way {
        name: "make deploy",
        install: plain::deploy,
        uninstall: |shell| uninstall::by_row(shell, uninstall::DEPLOY),
    },
    Way {
        name: "Helm",
        install: helm::install,
        uninstall: |shell| {
            uninstall::by_block(shell, uninstall::HELM_RELEASE);
            uninstall::by_block(shell, uninstall::HELM_REST);
        },
    },
    Way {
        name: "OLM v0",
        install: bundle::install_from_catalog,
        uninstall: |shell| uninstall::by_block(shell, uninstall::CATALOG),
    },
    Way {
        name: "OLM v1",
        install: olm_v1::install,
        uninstall: |shell| uninstall::by_row(shell, uninstall::OLM_V1),
    },
];

/// With each step width, the way around the five leads from each one to another one, and back to the first.
pub(crate) fn every_way_after_every_other(node: &Node) {
    let shell = &node.shell;
    node.olm();
    olm_v1::prepare(node);
    let before = Before::installation(shell);
    let around = |step| (1..=WAYS.len()).map(move |turn| turn * step % WAYS.len());
    for number in [0].into_iter().chain((1..WAYS.len()).flat_map(around)) {
        let way = &WAYS[number];
        println!("## {}", way.name);
        (way.install)(node);
        trusted(shell);
        (way.uninstall)(shell);
        before.nothing_left(shell);
    }
    olm_v1::remove(shell);
}
