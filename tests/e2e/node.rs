//! The cluster with its node, images and OLM.

use std::sync::Once;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Nodes, Options};

use crate::shell::Shell;

/// The manager's namespace.
pub(crate) const NAMESPACE: &str = "quartet-operator-system";

/// The repository path of all our images.
pub(crate) const IMAGES: &str = "ghcr.io/quartet-operator/quartet-operator";

/// The version to upgrade to; the same binary in packages of another version.
pub(crate) const NEXT: &str = "0.1.1";

/// A running cluster, and a shell that uses it.
pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) shell: Shell,
    dns: Once,
    olm: Once,
    cert_manager: Once,
}

impl Node {
    pub(crate) fn start() -> Self {
        assert!(
            devcluster::is_inside(),
            "this needs its own Linux namespaces: run make test-e2e as root"
        );
        let began = Instant::now();
        let cluster = Cluster::start(Options {
            nodes: Nodes::Real,
            ..Options::default()
        })
        .unwrap_or_else(|error| panic!("{error}"));
        println!(
            "the node is Ready after {:.1} s",
            began.elapsed().as_secs_f32()
        );
        let offline = [
            ("CARGO_NET_OFFLINE", "true"),
            ("GOFLAGS", "-mod=mod"),
            ("GOPROXY", "off"),
            ("BUILDAH_ISOLATION", "chroot"),
            ("CONTAINER_TOOL", "buildah"),
        ];
        let variables = cluster
            .environment()
            .variables()
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .chain(offline.map(|(name, value)| (name.into(), value.into())));
        Self {
            shell: Shell::new(variables),
            cluster,
            dns: Once::new(),
            olm: Once::new(),
            cert_manager: Once::new(),
        }
    }

    /// Builds and pushes all images: third-party ones, and the product's with the release commands.
    pub(crate) fn images(&self) {
        self.shell.must("hack/e2e/images.sh");
        self.shell.must("make docker-build docker-push");
        self.shell.must(
            "make bundle-build bundle-push catalog-build catalog-push catalog-push-following",
        );
        // The next version: the same manager in other packages.
        let next = format!("{IMAGES}:v{NEXT}");
        self.shell.must(&format!(
            "buildah tag {IMAGES}:v0.1.0 {next} && hack/image.sh push {next}"
        ));
        let folders = "BUNDLE_DIR=target/e2e/bundle CATALOG_DIR=target/e2e/catalog";
        self.shell.must(&format!(
            "rm -rf target/e2e && mkdir -p target/e2e && cp -r catalog target/e2e/ && \
             make bundle catalog bundle-build bundle-push catalog-build catalog-push VERSION={NEXT} {folders}"
        ));
    }

    /// Installs the cluster's DNS, once.
    pub(crate) fn dns(&self) {
        self.dns.call_once(|| {
            let shell = &self.shell;
            shell.must("kubectl apply -f hack/e2e/manifests/coredns.yaml");
            shell.must("kubectl -n kube-system rollout status deployment/coredns --timeout=120s");
        });
    }

    /// Installs OLM and the DNS that its catalogs need, once.
    pub(crate) fn olm(&self) {
        self.dns();
        self.olm.call_once(|| self.install_olm());
    }

    fn install_olm(&self) {
        let shell = &self.shell;
        shell.must(
            "kubectl apply --server-side -f $(cd hack/olm && go list -m -f {{.Dir}} \
             github.com/operator-framework/operator-lifecycle-manager)/deploy/chart/crds",
        );
        shell.must("kubectl wait --for=condition=Established crd --all --timeout=60s");
        shell.must("kubectl apply -f hack/e2e/manifests/olm.yaml");
        shell.must("kubectl -n olm rollout status deployment/olm-operator --timeout=120s");
        shell.must("kubectl -n olm rollout status deployment/catalog-operator --timeout=120s");
        // Three for each of its two OperatorGroups.
        let roles = "kubectl get clusterroles -o name | grep -c /olm.og";
        shell.until(roles, "6", Duration::from_secs(60));
    }

    /// Installs cert-manager, once.
    pub(crate) fn cert_manager(&self) {
        self.cert_manager.call_once(|| {
            let shell = &self.shell;
            shell.must(
                "kubectl apply --server-side -f $(cd hack/cert-manager && \
                 go list -m -f {{.Dir}} github.com/cert-manager/cert-manager)/deploy/crds",
            );
            shell.must("kubectl wait --for=condition=Established crd --all --timeout=60s");
            shell.must("kubectl apply -f hack/e2e/manifests/cert-manager.yaml");
            for part in ["cert-manager", "cert-manager-cainjector"] {
                shell.must(&format!(
                    "kubectl -n cert-manager rollout status deployment/{part} --timeout=120s"
                ));
            }
        });
    }

    /// Returns a shell assignment that puts operator-sdk and opm first in PATH.
    pub(crate) fn tools() -> &'static str {
        "PATH=$(dirname $(make -s operator-sdk)):$(dirname $(make -s opm)):$PATH"
    }

    /// Returns a shell assignment that puts Helm first in PATH.
    pub(crate) fn helm() -> &'static str {
        "PATH=$(hack/build-go.sh hack/helm):$PATH"
    }
}
