# The manager's image: one static binary and no other file.
#
# `make docker-build` builds the binary on the host and uses the stage `prebuilt`, which needs no
# network and gives the same image for the same source. A plain `docker build .`, or
# BUILD_IN_CONTAINER=1, compiles in the stage `build`. tests/docs/image.rs checks that all files of
# the build are copied; `make test-dockerfile` builds with this machine's toolchain.

# Rust on Alpine: its target is musl, so that the binary is static.
ARG BUILDER_IMAGE=docker.io/library/rust:1.95.0-alpine

FROM ${BUILDER_IMAGE} AS build
WORKDIR /src
# The dependencies are a layer of their own, which is rebuilt only when a manifest changes. cargo
# reads the manifest of every workspace member and requires each target in it to exist.
COPY Cargo.toml Cargo.lock ./
COPY crates/applied/Cargo.toml crates/applied/
COPY crates/certificates/Cargo.toml crates/certificates/
COPY crates/http/Cargo.toml crates/http/
COPY crates/lease/Cargo.toml crates/lease/
COPY crates/manager/Cargo.toml crates/manager/
COPY crates/packaging/Cargo.toml crates/packaging/
COPY crates/runtime/Cargo.toml crates/runtime/
COPY crates/versions/Cargo.toml crates/versions/
COPY crates/webhook/Cargo.toml crates/webhook/
COPY crates/workload/Cargo.toml crates/workload/
COPY tools/bench/Cargo.toml tools/bench/
COPY tools/devcluster/Cargo.toml tools/devcluster/
COPY tools/faultproxy/Cargo.toml tools/faultproxy/
COPY tools/modelapi/Cargo.toml tools/modelapi/
COPY tools/testkit/Cargo.toml tools/testkit/
RUN mkdir -p src/bin benches/pure tests && \
    for main in src/main.rs src/bin/generate.rs benches/pure/main.rs tests/cluster_audit.rs; do \
        echo 'fn main() {}' >"$main"; \
    done && \
    for library in . crates/applied crates/certificates crates/http crates/lease crates/manager crates/packaging crates/runtime crates/versions crates/webhook crates/workload tools/bench tools/devcluster tools/faultproxy tools/modelapi tools/testkit; do \
        mkdir -p "$library/src" && touch "$library/src/lib.rs"; \
    done && \
    cargo build --locked --release --package quartet-operator --bin manager
# The manager itself.
COPY crates crates
COPY src src
# Copied files keep their dates, and cargo does not rebuild files that are older than its last
# build. A builder image may set another target, whose binaries are in a separate folder.
RUN touch src/main.rs src/lib.rs crates/*/src/lib.rs && \
    cargo build --locked --release --package quartet-operator --bin manager && \
    cp "target/${CARGO_BUILD_TARGET:-.}/release/manager" /manager

FROM scratch AS prebuilt
# Without a default, which BuildKit would use in place of the architecture of --platform.
ARG TARGETARCH
LABEL org.opencontainers.image.title="quartet-operator" \
      org.opencontainers.image.description="Memcached, Nginx, ElasticWeb and HelloWorld operators in one manager" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --chmod=0755 target/image/${TARGETARCH}/manager /manager
USER 65532:65532
EXPOSE 8081 8443 9443
ENTRYPOINT ["/manager"]

FROM scratch AS image
LABEL org.opencontainers.image.title="quartet-operator" \
      org.opencontainers.image.description="Memcached, Nginx, ElasticWeb and HelloWorld operators in one manager" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build --chmod=0755 /manager /manager
USER 65532:65532
EXPOSE 8081 8443 9443
ENTRYPOINT ["/manager"]
