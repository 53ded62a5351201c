//! Installation as in docs/air-gapped.md: every image of a release is in one registry of the user.
//! The release's files are made as in .github/workflows/release.yml, by digest.

use std::fs;
use std::time::Duration;

use crate::bundle;
use crate::node::{NAMESPACE, Node};
use crate::uninstall::{self, Before};

const MIRROR: &str = "registry.example.com/mirror";
const FILES: &str = "target/e2e/mirror";
const COPY: &str = r"sed -E 's#[^/]*/(.*)#docker://& docker://registry.example.com/mirror/\1#' images.txt | xargs -n 2 skopeo copy --all";
/// The images of all pods.
const RUN: &str =
    "-o jsonpath='{range .items[*]}{.spec.containers[*].image}{\"\\n\"}{end}' | sort -u";

pub(crate) fn installed_from_a_mirror(node: &Node) {
    let shell = &node.shell;
    let by_digest = format!(
        "USE_IMAGE_DIGESTS=true INSTALLER_DIR={FILES} BUNDLE_DIR={FILES}/bundle CATALOG_DIR={FILES}/catalog"
    );
    shell.must(&format!(
        "make bundle build-installer bundle-build bundle-push {by_digest}"
    ));
    shell.must(&format!(
        "make catalog catalog-build catalog-push catalog-push-following {by_digest}"
    ));
    let images = shell.must(&format!("cat {FILES}/images.txt"));
    // All images but bundle and catalog; the catalog names the bundle by digest.
    assert_eq!(images.matches("@sha256:").count(), 3, "{images}");
    assert_eq!(images.lines().count(), 5, "{images}");
    shell.must(&format!(
        "grep -q 'quartet-operator-bundle@sha256:' {FILES}/catalog/quartet-operator/quartet-operator.v0.1.0.yaml"
    ));
    shell.must(&format!("cd {FILES} && {COPY}"));

    other_names(node);
    redirected(node);
    by_olm(node);

    // Restores the images for the next test.
    shell.must("make bundle-build bundle-push catalog-build catalog-push catalog-push-following");
}

/// Manifests with the image names of the mirror.
fn other_names(node: &Node) {
    let shell = &node.shell;
    shell.must(&format!("cd {FILES} && sed -E 's#(docker.io|ghcr.io)/#registry.example.com/mirror/#' install.yaml | kubectl apply --server-side -f -"));
    shell.must(&format!(
        "kubectl -n {NAMESPACE} rollout status deployment/quartet-operator-controller-manager --timeout=120s"
    ));
    let samples =
        "-f config/samples/cache_v1_memcached.yaml -f config/samples/test_v1_helloworld.yaml";
    shell.must(&format!("kubectl apply {samples}"));
    shell.must("kubectl wait memcached,helloworld --all --for=condition=Ready --timeout=120s");
    for namespace in ["default", NAMESPACE] {
        let images = shell.must(&format!("kubectl get pods -n {namespace} {RUN}"));
        let by_mirror = |image: &str| image.starts_with(MIRROR) && image.contains("@sha256:");
        assert!(images.lines().all(by_mirror), "{images}");
    }
    shell.must(&format!("kubectl delete {samples} --timeout=60s"));
    shell.must(&format!(
        "kubectl delete -f {FILES}/install.yaml --timeout=120s"
    ));
}

/// The node's containerd redirects image names of manifests to the mirror. The pulled images have
/// no other name there.
fn redirected(node: &Node) {
    let shell = &node.shell;
    shell.must(&format!(
        "skopeo copy docker://registry.test/base/busybox:1 docker://{MIRROR}/only/here:1"
    ));
    let containerd = node.cluster.dir().join("node/certs.d");
    let authority = fs::read_to_string(containerd.join("_default/hosts.toml")).expect("a file");
    let authority = authority.lines().find(|line| line.starts_with("ca = "));
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/air-gapped.md"));
    let document = document.expect("a document");
    let (_, hosts) = document
        .split_once("```text\nserver = \"https://ghcr.io\"\n")
        .expect("the file of the document");
    let (hosts, _) = hosts.split_once("```").expect("its end");
    let folder = containerd.join("ghcr.io");
    fs::create_dir(&folder).expect("a folder");
    let text = format!(
        "server = \"https://ghcr.io\"\n{hosts}  {}\n",
        authority.expect("an authority")
    );
    fs::write(folder.join("hosts.toml"), text).expect("written");
    shell.must("kubectl run redirected --image=ghcr.io/only/here:1 --restart=Never -- sleep 1");
    shell.until(
        "kubectl get pod redirected -o jsonpath='{.status.phase}'",
        "Succeeded",
        Duration::from_secs(60),
    );
    shell.must("kubectl delete pod redirected --timeout=60s");
    fs::remove_dir_all(folder).expect("removed");
}

/// The catalog from the mirror. The node pulls the bundle and the manager under the names in the
/// catalog, from one registry.
fn by_olm(node: &Node) {
    let shell = &node.shell;
    node.olm();
    // The garbage collector deletes the children of the samples in its own time.
    shell.until(
        "kubectl get deployments -n default -o name | wc -l",
        "0",
        Duration::from_secs(120),
    );
    let before_it = Before::installation(shell);
    // The Subscription follows when OLM has read this catalog: it may have kept that of an earlier phase.
    shell.must("kubectl create namespace quartet-operator-system");
    shell.must("sed 's#ghcr.io/#registry.example.com/mirror/#' config/olm/catalog_source.yaml | kubectl apply -f -");
    bundle::catalog_is_read(shell);
    shell.must("kubectl kustomize config/olm | sed 's#ghcr.io/#registry.example.com/mirror/#' | kubectl apply -f -");
    shell.until(
        &format!(
            "kubectl -n {NAMESPACE} get csv quartet-operator.v0.1.0 -o jsonpath='{{.status.phase}} \
             {{.metadata.annotations.features\\.operators\\.openshift\\.io/disconnected}}'"
        ),
        "Succeeded true",
        Duration::from_secs(300),
    );
    let images = shell.must(&format!("kubectl get pods -n {NAMESPACE} {RUN}"));
    // OLM unpacks the bundle with images of its own.
    let ours = images.lines().filter(|it| it.contains("quartet-operator"));
    let (catalog, manager): (Vec<&str>, Vec<&str>) =
        ours.partition(|image| image.contains("-catalog:"));
    let [catalog] = catalog[..] else {
        panic!("{images}")
    };
    assert!(catalog.starts_with(MIRROR), "{images}");
    let is_by_digest = |it: &&str| it.contains("@sha256:");
    assert!(
        manager.len() == 1 && manager.iter().all(is_by_digest),
        "{images}"
    );
    uninstall::by_block(shell, uninstall::CATALOG);
    before_it.nothing_left(shell);
}
