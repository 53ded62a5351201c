# The commands of this project, with the names of a kubebuilder or operator-sdk scaffold. `make
# help` lists them.

CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR
# Any value keeps the cluster and the manager of `make demo` running.
KEEP ?=
comma = ,
# This machine's architecture, as in image names.
ARCHITECTURE = $(subst x86_64,amd64,$(subst aarch64,arm64,$(shell uname -m)))
# More arguments for the manager of `make run`, e.g. ARGS=--log-level=debug, or for the
# benchmarks, e.g. ARGS=--rest=10 for `make bench`.
ARGS ?=
# The address at which the API server calls the webhooks of `make run`. With kind or minikube, whose
# API server is in a container, an address of this machine as seen from there.
WEBHOOK_URL ?= https://127.0.0.1:9443
# The binary that the benchmarks measure, e.g. that of the image:
# MANAGER=target/image/amd64/manager.
MANAGER ?= $(CARGO_TARGET_DIR)/release/manager
# The number of resources that `make bench` and `make bench-peer` create.
N ?= 1000
# The number of restarts of `make test-rollout`.
RESTARTS ?= 20
# The scenarios of `make test-faults`: all, or those whose names contain this.
FAULTS ?=
# The number of random plans of `make explore` and the first seed, or `all` plans with one fault; or
# the one plan to run.
PLANS ?= 10000
SEED ?= 1
PLAN ?=
# The mutants of `make explore-mutants`: all, or the one of this name in docs/testing.md.
MUTANT ?=
# The documents of `make test-docs`, likewise.
DOCS ?=
# The phases of `make test-e2e`, likewise; several with commas between them.
PHASES ?=
# Executions of each fuzz target of `make fuzz`, and the targets: all unless some are named.
FUZZ_RUNS ?= 2000
FUZZ_TARGETS ?=
# The version to package, and its images.
VERSION ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
IMAGE_TAG_BASE ?= $(shell sed -n 's/^images: *//p' packaging/project.yaml)
IMG ?= $(IMAGE_TAG_BASE):v$(VERSION)
BUNDLE_IMG ?= $(IMAGE_TAG_BASE)-bundle:v$(VERSION)
CATALOG_IMG ?= $(IMAGE_TAG_BASE)-catalog:v$(VERSION)
# The catalog tag that the CatalogSource of config/olm uses: one for each minor version.
CATALOG_FOLLOWING_IMG ?= $(IMAGE_TAG_BASE)-catalog:v$(basename $(VERSION))
# The channels of bundle and catalog; the default channel is the first one unless set. Empty:
# candidate, and from 1.0.0 on stable,candidate.
CHANNELS ?=
DEFAULT_CHANNEL ?=
# true: generated files name images by digest, which skopeo requests from their registries. The
# default is false as in operator-sdk's scaffold, because the image of a checkout is not in a
# registry; .github/workflows/release.yml sets it.
USE_IMAGE_DIGESTS ?= false
# More arguments for the generator of bundle and catalog, see target/debug/generate bundle --help.
BUNDLE_GEN_FLAGS ?=
# The folders of bundle and catalog, from which their images are built; others for other versions.
BUNDLE_DIR ?= bundle
CATALOG_DIR ?= catalog
# The folder of install.yaml and the list of images.
INSTALLER_DIR ?= dist
# The folders of the Helm chart and of its package.
CHART_DIR ?= dist/chart
CHART_PACKAGES ?= target/chart
# More arguments for operator-sdk scorecard. If its default images, which are pinned by digest, are
# not available: SCORECARD_FLAGS='--untar-image=… --storage-image=…'
SCORECARD_FLAGS ?= --wait-time=120s
# The overlay of `make deploy`: config/certmanager on clusters with cert-manager.
OVERLAY ?= config/default
# docker, podman or buildah; if empty, the first of them that is installed.
CONTAINER_TOOL ?=
# Any value compiles the manager in the image BUILDER_IMAGE instead of on this machine.
BUILD_IN_CONTAINER ?=
BUILDER_IMAGE ?=
# The platforms of docker-buildx, and of the nodes on which the manager runs.
PLATFORMS ?= linux/amd64,linux/arm64
# The date of the images and of all files in them, so that the same source gives the same image. Not
# set for every command, because another date causes recompilation.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
docker-build docker-buildx bundle-build bundle-buildx catalog-build catalog-buildx helm-chart release-dry-run: export SOURCE_DATE_EPOCH := $(SOURCE_DATE_EPOCH)
export CONTAINER_TOOL
# More arguments for `cargo test`, e.g. TESTFLAGS='--test manager'.
TESTFLAGS ?=

# As in the scaffold: `make uninstall ignore-not-found=true`.
ifndef ignore-not-found
  ignore-not-found = false
endif

# A kubectl that was built here, else the one in PATH, else one that is built now, because the
# machine's own may be old.
KUBE_CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quartet-operator/kube
KUBECTL_BUILT = $(firstword $(filter-out %/building/kubectl,$(wildcard $(KUBE_CACHE)/*/kubectl)))
KUBECTL ?= $(or $(KUBECTL_BUILT),$(shell command -v kubectl),"$$(hack/build-go.sh hack/kube)"/kubectl)

# The files of kinds: src/kinds/mod.rs declares them as modules in a macro, which cargo fmt ignores.
RUSTFMT_KINDS = rustfmt --edition 2024 $(wildcard src/kinds/*.rs)
# A workspace of its own, because it is not released.
KUBE_RS_PEER = tools/bench/peers/kube-rs/Cargo.toml
# All workspaces but that of the manager.
FORMAT_OTHERS = for manifest in fuzz/Cargo.toml tools/api-list/Cargo.toml $(KUBE_RS_PEER); do \
	cargo fmt --manifest-path $$manifest $(1) || exit; done
DEVCLUSTER = $(CARGO_TARGET_DIR)/debug/devcluster
# --workspace for every build: cargo then compiles each dependency once, with the features of all
# members, and not again for each member.
CARGO_BUILD = cargo build --locked --workspace

.DEFAULT_GOAL := build

##@ General

.PHONY: all
all: build ## Same as build.

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "\nUsage:\n  make \033[36m<target>\033[0m\n"} /^[a-zA-Z_0-9-]+:.*?##/ { printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2 } /^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) }' $(MAKEFILE_LIST)

##@ See it work

.PHONY: demo
demo: ## Start a local Kubernetes and show the four operators at work; KEEP=1 leaves it running.
	@$(MAKE) --no-print-directory -j2 local-kubernetes demo-binaries
	@KEEP='$(KEEP)' hack/demo.sh $(abspath $(DEVCLUSTER)) $(CARGO_TARGET_DIR)/debug/manager

# Not the release build, which takes four minutes more; `make test` uses the same.
.PHONY: demo-binaries
demo-binaries:
	$(CARGO_BUILD) --bin manager --bin devcluster

# Go and cargo each leave a core idle for a while, so a first build runs both at once.
.PHONY: local-kubernetes
local-kubernetes:
	@hack/build-go.sh hack/kube >/dev/null

.PHONY: demo-down
demo-down: devcluster-down ## Stop the cluster and the manager of `make demo KEEP=1`.

.PHONY: devcluster-up
devcluster-up: ## Start a local Kubernetes and print the line that selects it.
	$(CARGO_BUILD) --bin devcluster
	@$(DEVCLUSTER) up

.PHONY: devcluster-down
devcluster-down: ## Stop every local Kubernetes.
	$(CARGO_BUILD) --bin devcluster
	@$(DEVCLUSTER) down

##@ Development

.PHONY: manifests
manifests: ## Write every generated file from the Rust types.
	$(CARGO_BUILD) --bin generate
	$(DATED) $(GENERATE) manifests --output=.

.PHONY: kind
kind: ## Add an operator, e.g. KIND=Redis GROUP=cache.example.com; VERSIONS, PLURAL, SHORT and IMAGE are optional.
	$(CARGO_BUILD) --bin quartet-packaging
	$(CARGO_TARGET_DIR)/debug/quartet-packaging add --kind='$(KIND)' --group='$(GROUP)' --versions='$(VERSIONS)' \
		--plural='$(PLURAL)' --short='$(SHORT)' --image='$(IMAGE)'
	$(MAKE) --no-print-directory manifests
	UPDATE_GOLDEN=1 cargo test --locked --workspace --lib --test explorer -- tests::workload::golden campaign::writes

.PHONY: public-api
public-api: ## Write the public API of each library, one item a line: crates/*/public-api.txt.
	hack/public-api.sh .

.PHONY: generate
generate: manifests ## Same as manifests. Rust needs no generated DeepCopy code.

.PHONY: fmt
fmt: ## Format the code.
	cargo fmt --all
	$(RUSTFMT_KINDS)
	$(call FORMAT_OTHERS)

.PHONY: vet
vet: ## Type-check everything, tests included.
	cargo check --locked --workspace --all-targets
	cargo check --locked --workspace --test cluster_audit

.PHONY: lint
lint: ## Check formatting, clippy, rustdoc, actionlint and the documentation site; warnings fail.
	cargo fmt --all --check
	$(RUSTFMT_KINDS) --check
	$(call FORMAT_OTHERS,--check)
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	cargo clippy --locked --workspace --test cluster_audit -- --deny warnings
	@# The one feature of the libraries that a user turns off.
	cargo check --locked --package quartet-manager --no-default-features
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private_intra_doc_links" \
		cargo doc --locked --workspace --no-deps --lib --document-private-items
	$(MAKE) --no-print-directory lint-workflows site

.PHONY: lint-workflows
lint-workflows: ## Check all workflows with actionlint, and that every action is pinned by commit.
	hack/lint-workflows.sh

.PHONY: site
site: ## Build the documentation site to target/site, and check its links.
	hack/site.sh

.PHONY: lint-fix
lint-fix: ## Apply the fixes of clippy and rustfmt.
	cargo clippy --locked --workspace --all-targets --fix --allow-dirty --allow-staged
	cargo fmt --all
	$(RUSTFMT_KINDS)
	$(call FORMAT_OTHERS)

.PHONY: audit
audit: ## Check licences, sources and banned crates of the dependencies, and known vulnerabilities if the database is reachable.
	hack/audit.sh

.PHONY: verify
verify: ## Fail, with the difference, if a generated file is stale.
	hack/verify.sh

# Compiles the tests that these arguments of `cargo test` select, their managers, and devcluster. cargo
# compiles examples only if it compiles all tests.
COMPILE_TESTS = cargo build --locked --workspace --bin devcluster --bin quartet-packaging && \
	$(if $(findstring --test cluster,$(TESTFLAGS)),cargo build --locked --workspace --examples &&) \
	cargo test --locked --workspace --no-run
# hack/test.sh checks the audit logs at the end.
COMPILE_AUDIT = $(CARGO_BUILD) --test cluster_audit
# Runs the tests with a cluster. In a recipe with variables, after `exec env`: the SIGTERM of a stopped
# make then reaches it, and not only its shell.
WITH_CLUSTER = $(CARGO_TARGET_DIR)/debug/devcluster run --definitions config/crd-original --
# Whether TESTFLAGS select all tests.
WHOLE_RUN = $(if $(filter-out --no-fail-fast,$(TESTFLAGS)),,yes)

# A whole run builds third-party programs beforehand; a single test builds those that it starts.
.PHONY: test
test: ## Run every test, with a local Kubernetes; TESTFLAGS='--test cluster drift' selects some.
	@$(MAKE) --no-print-directory -j2 $(if $(WHOLE_RUN),third-party-programs) test-binaries
	$(WITH_CLUSTER) hack/test.sh $(TESTFLAGS)

.PHONY: test-binaries
test-binaries:
	$(COMPILE_TESTS) $(TESTFLAGS)
	$(COMPILE_AUDIT)

.PHONY: third-party-programs
third-party-programs: local-kubernetes
	@for module in prometheus collector opm operator-sdk helm kubeconform flux; do \
		hack/build-go.sh hack/$$module >/dev/null || exit; done

.PHONY: test-nightly
test-nightly: ## Run the tests that take hours, stage by stage; `hack/nightly.sh faults` runs one.
	hack/nightly.sh

.PHONY: test-rollout
test-rollout: ## Run rolling restarts under load, without a failed call; RESTARTS=20.
	$(COMPILE_TESTS) --test rollout
	$(COMPILE_AUDIT)
	exec env ROLLING_RESTARTS=$(RESTARTS) $(WITH_CLUSTER) \
		hack/test.sh --test rollout rolling_restarts -- --nocapture

.PHONY: test-programs
test-programs: ## Run Flux's controllers and Velero beside the manager, from their modules; TESTFLAGS=flux selects.
	$(COMPILE_TESTS) --test cluster
	exec $(WITH_CLUSTER) cargo test --locked --workspace --test cluster programs::$(TESTFLAGS) -- --ignored --nocapture

.PHONY: test-image
test-image: ## Run the attacks of tests/hostile on the binary of the image, which has another allocator.
	hack/image.sh binary $(ARCHITECTURE)
	HOSTILE_MANAGER=$(CURDIR)/target/image/$(ARCHITECTURE)/manager $(MAKE) test TESTFLAGS='--test hostile'

.PHONY: test-docs
test-docs: ## Run every command of the documents and compare the output; DOCS='README' selects by path.
	$(COMPILE_TESTS) --test docs
	exec env DOCS='$(DOCS)' hack/test.sh --test docs the_documents -- --ignored --nocapture

.PHONY: test-e2e
test-e2e: ## Test the product on a node that runs containers; as root; PHASES='catalog,helm' selects by name.
	@hack/e2e/missing.sh --check
	hack/e2e/images.sh fetch
	hack/image.sh binary $(ARCHITECTURE)
	case ',$(PHASES),' in ,,|*new*|*project*) hack/e2e/new-project.sh ;; esac
	$(COMPILE_TESTS) --test e2e
	PHASES='$(PHASES)' hack/e2e/traces.sh $(CARGO_TARGET_DIR)/debug/devcluster enter -- \
		hack/test.sh --offline --test e2e -- --ignored --nocapture

.PHONY: test-dockerfile
test-dockerfile: ## Build the Dockerfile without a network, with this machine's toolchain; as root, with buildah.
	hack/test-dockerfile.sh

.PHONY: explore
explore: ## Test faults at every step, in process: PLANS=all, PLANS=100000 from SEED=2 on, or one PLAN='…'.
	PLANS='$(PLANS)' SEED='$(SEED)' PLAN='$(PLAN)' \
	  cargo test --locked --workspace --profile explore --test explorer campaign::explore -- \
	  --exact --ignored --nocapture

.PHONY: reading-order
reading-order: ## Compare the reading order of docs/architecture.md with the files that a run executes; needs valgrind.
	hack/reading-order.sh

.PHONY: explore-mutants
explore-mutants: ## Check that the oracles of the explorer report each bug of tests/mutants; MUTANT='blind status'.
	hack/explore-mutants.sh $(if $(MUTANT),'$(MUTANT)')

.PHONY: mutants
mutants: N = 200
mutants: ## Change the code in N=200 places (SEED=2 for others), and check that the unit tests notice.
	N='$(N)' SEED='$(SEED)' hack/mutants.sh

.PHONY: test-faults
test-faults: ## Test faults of the API server and the network; FAULTS='F12' or 'rivals' selects.
	$(COMPILE_TESTS) --test faults
	$(COMPILE_AUDIT)
	exec env FAULTS='$(FAULTS)' $(WITH_CLUSTER) \
		hack/test.sh --test faults the_campaign -- --ignored --nocapture

.PHONY: test-previous
test-previous: ## Test upgrade and downgrade under load with the previous release, which is built once.
	$(CARGO_BUILD) --bin devcluster --bin manager
	hack/previous.sh >/dev/null
	$(CARGO_TARGET_DIR)/debug/devcluster run -- \
		cargo test --locked --workspace --test versions rolling_updates_between_releases -- --ignored --nocapture

# etcd, kwok and the links of the current Kubernetes, then those of the oldest one over them.
KUBE_OLDEST = $(abspath $(CARGO_TARGET_DIR))/kube-oldest
.PHONY: test-oldest
test-oldest: ## Run every test on the oldest supported Kubernetes; TESTFLAGS as for test.
	@mkdir -p $(KUBE_OLDEST)
	@for module in kube kube-oldest; do \
		ln -sf "$$(hack/build-go.sh hack/$$module)"/* $(KUBE_OLDEST)/ || exit; done
	DEVCLUSTER_BIN=$(KUBE_OLDEST) $(MAKE) test

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZ_RUNS executions; FUZZ_TARGETS='children pem_reload'.
	@FUZZ_RUNS='$(FUZZ_RUNS)' FUZZ_TARGETS='$(FUZZ_TARGETS)' hack/fuzz.sh

.PHONY: bench
bench: ## Measure requests, CPU and memory of the manager; N=10000 resources, ARGS=--help.
	$(CARGO_BUILD) --release --bin manager --bin bench
	@$(CARGO_TARGET_DIR)/release/bench --manager $(MANAGER) --resources $(N) $(ARGS)

.PHONY: bench-peer
bench-peer: ## Compare the manager with one on controller-runtime and one on kube-rs; writes docs/performance-details.md.
	$(CARGO_BUILD) --release --bin manager --bin bench
	cargo build --locked --release --manifest-path $(KUBE_RS_PEER) --target-dir $(CARGO_TARGET_DIR)/peers
	@go=$$(hack/build-go.sh tools/bench/peers/go) && \
	$(CARGO_TARGET_DIR)/release/bench peer --manager $(MANAGER) \
		--go "$$go/go-peer" --kube-rs $(CARGO_TARGET_DIR)/peers/release/kube-rs-peer \
		--resources $(N) --write docs/performance-details.md $(ARGS)

.PHONY: bench-pure
bench-pure: ## Measure time and allocations of the pure functions: conversion, admission, children, status.
	cargo bench --locked --bench pure $(ARGS)

.PHONY: bench-webhook
bench-webhook: ## Compare the webhooks over TLS with controller-runtime's; ARGS=--help.
	$(CARGO_BUILD) --release --bin manager --bin bench
	@go=$$(hack/build-go.sh tools/bench/peers/go) && \
	$(CARGO_TARGET_DIR)/release/bench webhook --manager $(MANAGER) --go "$$go/go-peer" $(ARGS)

.PHONY: plots
plots: ## Draw the plots of docs/performance-details.md from the figures in docs/figures.
	$(CARGO_BUILD) --bin bench
	$(CARGO_TARGET_DIR)/debug/bench plot --figures docs/figures

##@ Build

.PHONY: build
build: ## Build the manager, at target/release/manager.
	$(CARGO_BUILD) --release --bin manager

# The API server calls the manager's webhooks at WEBHOOK_URL, until it ends. WEBHOOK_URL_FORCE=true allows
# an API server on another machine.
REGISTERED = $(DEVCLUSTER) webhooks --kubectl=$(KUBECTL) --url=$(WEBHOOK_URL) --

.PHONY: run
run: ## Run the manager on this machine against the cluster of KUBECONFIG.
	$(CARGO_BUILD) --bin manager --bin devcluster
	@exec $(if $(filter false --enable-webhooks=false,$(ENABLE_WEBHOOKS) $(ARGS)),,$(REGISTERED)) \
		$(CARGO_TARGET_DIR)/debug/manager --log-format=text $(ARGS)

##@ Packaging

GENERATE = $(CARGO_TARGET_DIR)/debug/generate
# For a version that the changelog does not have yet.
DATED = SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)'
RELEASE_FLAGS = --version='$(VERSION)' --image='$(IMG)' --bundle-image='$(BUNDLE_IMG)' \
	--channels='$(CHANNELS)' \
	--default-channel='$(DEFAULT_CHANNEL)' --platforms='$(PLATFORMS)' \
	$(if $(filter true,$(USE_IMAGE_DIGESTS)),--use-image-digests)

.PHONY: bundle
bundle: ## Write the OLM bundle to BUNDLE_DIR, and its Dockerfile beside it.
	$(CARGO_BUILD) --bin generate
	$(DATED) $(GENERATE) bundle $(RELEASE_FLAGS) $(BUNDLE_GEN_FLAGS) --output='$(BUNDLE_DIR)'

.PHONY: bundle-validate
bundle-validate: ## Validate BUNDLE_DIR with operator-sdk, without a warning, and CATALOG_DIR with opm.
	hack/bundle-validate.sh '$(BUNDLE_DIR)' '$(CATALOG_DIR)'

.PHONY: scorecard
scorecard: ## Run operator-sdk's scorecard on BUNDLE_DIR in the cluster of KUBECONFIG, which runs pods.
	"$$(hack/build-go.sh hack/operator-sdk)/operator-sdk" scorecard '$(BUNDLE_DIR)' $(SCORECARD_FLAGS)

.PHONY: catalog
catalog: ## Write the file-based catalog to CATALOG_DIR, and its Dockerfile beside it.
	$(CARGO_BUILD) --bin generate
	$(DATED) $(GENERATE) catalog $(RELEASE_FLAGS) $(BUNDLE_GEN_FLAGS) --output='$(CATALOG_DIR)'

.PHONY: community-operators
community-operators: ## Write this version for a community catalog, to its clone COMMUNITY_DIR.
	$(CARGO_BUILD) --bin generate
	$(DATED) $(GENERATE) community $(RELEASE_FLAGS) $(BUNDLE_GEN_FLAGS) --output='$(or $(COMMUNITY_DIR),target/community-operators)'

.PHONY: build-installer
build-installer: ## Write install.yaml, which installs everything, and images.txt to INSTALLER_DIR, for the image IMG.
	$(CARGO_BUILD) --bin generate
	$(DATED) $(GENERATE) installer $(RELEASE_FLAGS) --output='$(INSTALLER_DIR)'

.PHONY: helm-chart
helm-chart: ## Write the Helm chart to CHART_DIR, and its package to CHART_PACKAGES, for the image IMG.
	$(CARGO_BUILD) --bin generate
	$(DATED) $(GENERATE) chart $(RELEASE_FLAGS) --output='$(CHART_DIR)'
	hack/package-chart.sh '$(CHART_DIR)' '$(CHART_PACKAGES)'

##@ Images

LABELS = --label org.opencontainers.image.version=$(VERSION) \
	--label org.opencontainers.image.revision=$(shell git rev-parse HEAD 2>/dev/null)
BUILT_INSIDE = $(LABELS) $(if $(BUILDER_IMAGE),--build-arg BUILDER_IMAGE=$(BUILDER_IMAGE))
BUILT_HERE = $(LABELS) --build-arg TARGETARCH=$(ARCHITECTURE)

.PHONY: docker-build
docker-build: ## Build the manager's image IMG, with docker, podman or buildah (CONTAINER_TOOL).
ifeq ($(BUILD_IN_CONTAINER),)
	hack/image.sh binary $(ARCHITECTURE)
	BUILD_FLAGS="$(BUILT_HERE)" hack/image.sh build $(IMG) Dockerfile . prebuilt
else
	BUILD_FLAGS="$(BUILT_INSIDE)" hack/image.sh build $(IMG) Dockerfile . image
endif

.PHONY: docker-push
docker-push: ## Push the manager's image IMG.
	hack/image.sh push $(IMG)

.PHONY: docker-buildx
docker-buildx: ## Build the manager's image for all of PLATFORMS and push it as IMG.
	hack/image.sh binary $(foreach platform,$(subst $(comma), ,$(PLATFORMS)),$(notdir $(platform)))
	BUILD_FLAGS="$(LABELS)" hack/image.sh multi $(IMG) Dockerfile $(PLATFORMS) prebuilt

.PHONY: bundle-build
bundle-build: ## Build the bundle's image BUNDLE_IMG.
	hack/image.sh build $(BUNDLE_IMG) $(BUNDLE_DIR).Dockerfile $(dir $(BUNDLE_DIR))

.PHONY: bundle-buildx
bundle-buildx: ## Build the bundle's image for all of PLATFORMS and push it as BUNDLE_IMG.
	hack/image.sh multi $(BUNDLE_IMG) $(BUNDLE_DIR).Dockerfile $(PLATFORMS)

.PHONY: catalog-buildx
catalog-buildx: ## Build the catalog's image for all of PLATFORMS and push it as CATALOG_IMG.
	hack/image.sh multi $(CATALOG_IMG) $(CATALOG_DIR).Dockerfile $(PLATFORMS)

.PHONY: bundle-push
bundle-push: ## Push the bundle's image BUNDLE_IMG.
	hack/image.sh push $(BUNDLE_IMG)

.PHONY: catalog-build
catalog-build: ## Build the catalog's image CATALOG_IMG.
	hack/image.sh build $(CATALOG_IMG) $(CATALOG_DIR).Dockerfile $(dir $(CATALOG_DIR))

.PHONY: catalog-push
catalog-push: ## Push the catalog's image CATALOG_IMG.
	hack/image.sh push $(CATALOG_IMG)

.PHONY: catalog-push-following
catalog-push-following: ## Push the catalog's image also as CATALOG_FOLLOWING_IMG, from which installed catalogs upgrade.
	hack/image.sh tag $(CATALOG_IMG) $(CATALOG_FOLLOWING_IMG)
	hack/image.sh push $(CATALOG_FOLLOWING_IMG)

.PHONY: sbom
sbom: ## Write the software bill of materials (CycloneDX) of the manager, at target/image/manager.cdx.json.
	hack/sbom.sh

##@ Release

# The processors of `make release-dry-run`: those of PLATFORMS.
RELEASE_ARCHITECTURES ?= $(foreach platform,$(subst $(comma), ,$(PLATFORMS)),$(notdir $(platform)))

.PHONY: release-dry-run
release-dry-run: ## Build every file of a release, with checksums and SBOM, in target/release-artifacts.
	hack/release.sh artifacts $(VERSION) $(RELEASE_ARCHITECTURES)

.PHONY: publish-dry-run
publish-dry-run: ## Package every library as for a registry, and build each from its package.
	cargo publish --locked --workspace --dry-run

.PHONY: release
release: ## Check the release, and tag this commit as VERSION; pushing the tag publishes it.
	hack/release.sh check $(VERSION)
	hack/verify.sh
	git tag --annotate v$(VERSION) --message 'quartet-operator $(VERSION)'
	@echo 'To publish it: git push origin v$(VERSION)'

##@ Tools

.PHONY: operator-sdk
operator-sdk: ## Build operator-sdk from its module, once, and print where it is.
	@echo "$$(hack/build-go.sh hack/operator-sdk)/operator-sdk"

.PHONY: opm
opm: ## Build opm from its module, once, and print where it is.
	@echo "$$(hack/build-go.sh hack/opm)/opm"

.PHONY: kustomize
kustomize: ## Build kustomize from its module, once, and print where it is.
	@echo "$$(hack/build-go.sh hack/kustomize)/kustomize"

.PHONY: helm
helm: ## Build Helm from its module, once, and print where it is.
	@echo "$$(hack/build-go.sh hack/helm)/helm"

##@ Deployment

# `make run` sets a URL in the CRDs. If it was killed, the URL is still there: an apply adds the
# Service beside it, and is rejected for having both. The next `make run` notices within seconds.
.PHONY: install
install: ## Install the CRDs, with both versions, into the cluster of KUBECONFIG.
	$(KUBECTL) apply --server-side --force-conflicts -k config/crd || $(KUBECTL) replace -k config/crd
	@# What a killed `make run` left would reject every write.
	@$(KUBECTL) delete validatingwebhookconfigurations -l app.kubernetes.io/managed-by=devcluster >/dev/null

.PHONY: uninstall
uninstall: ## Remove the CRDs, and with them every resource of the four kinds; ignore-not-found=true.
	$(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -k config/crd

# kustomize requires the overlay's path relative to the kustomization.
.PHONY: deployment
deployment:
	@mkdir -p '$(CARGO_TARGET_DIR)/deploy'
	overlay=$$(realpath --canonicalize-missing --relative-to='$(CARGO_TARGET_DIR)/deploy' '$(OVERLAY)') && \
		sed -e "s|OVERLAY|$$overlay|" -e 's|IMAGE|$(IMG)|' packaging/deployed.yaml \
		>'$(CARGO_TARGET_DIR)/deploy/kustomization.yaml'

.PHONY: deploy
deploy: deployment ## Install everything, with the image IMG, into the cluster of KUBECONFIG.
	$(KUBECTL) apply --server-side --force-conflicts -k $(CARGO_TARGET_DIR)/deploy
	$(PRUNE)

# The roles and bindings that this project has ever made for some ways to install and not for others,
# without their prefix.
RIGHTS = ClusterRole/manager-role ClusterRoleBinding/manager-rolebinding \
	ClusterRole/metrics-auth-role ClusterRoleBinding/metrics-auth-rolebinding ClusterRole/metrics-reader \
	ClusterRole/webhook-registration-role ClusterRoleBinding/webhook-registration-rolebinding \
	Role/manager-role RoleBinding/manager-rolebinding \
	Role/webhook-certificate-role RoleBinding/webhook-certificate-rolebinding

# Deletes those that the manifests do not have: a line for each object is its kind, name and namespace.
DEPLOYED = $(KUBECTL) create --dry-run=client -k $(CARGO_TARGET_DIR)/deploy \
	-o go-template='{{.kind}}/{{.metadata.name}} {{.metadata.namespace}}{{"\n"}}'
PRUNE = @deployed=$$($(DEPLOYED)) && \
	namespace=$$(echo "$$deployed" | awk '$$1 ~ /^Deployment/ { print $$2 }') && other='' && \
	for right in $(subst /,/quartet-operator-,$(RIGHTS)); do \
		echo "$$deployed" | grep -q "^$$right " || other="$$other $$right"; \
	done && \
	{ [ -z "$$other" ] || $(KUBECTL) delete --namespace "$$namespace" --ignore-not-found --dry-run=$(DRY_RUN) $$other; } && \
	{ echo "$$deployed" | grep -q '^Role/quartet-operator-webhook-certificate-role ' || $(PRUNE_SECRET); }
DRY_RUN ?= none

# Deletes the certificates that the manager made, once its pods serve those of another source.
SECRET = secret/quartet-operator-webhook-server-cert
PRUNE_SECRET = { [ -z "$$($(KUBECTL) --namespace "$$namespace" get $(SECRET) --ignore-not-found -o name)" ] || \
	{ $(KUBECTL) --namespace "$$namespace" rollout status --timeout=300s deployment/quartet-operator-controller-manager && \
	$(KUBECTL) --namespace "$$namespace" delete --ignore-not-found --dry-run=$(DRY_RUN) $(SECRET); }; }

.PHONY: prune
prune: deployment ## Delete roles, bindings and the Secret of other ways to install, as deploy does; DRY_RUN=server only shows them.
	$(PRUNE)

.PHONY: undeploy
undeploy: deployment ## Remove everything that deploy installs, with every resource of the four kinds; ignore-not-found=true.
	$(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -k $(CARGO_TARGET_DIR)/deploy
