# The manager's image: one static binary, nothing else.
#
# `make docker-build` builds the binary on the host and takes the stage `prebuilt`, which
# needs no network and gives the same image for the same source. A plain `docker build .`,
# or BUILD_IN_CONTAINER=1, compiles in the stage `build`.

# Rust on Alpine: its target is musl, so that the binary is static.
ARG BUILDER_IMAGE=docker.io/library/rust:1.95.0-alpine

FROM ${BUILDER_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock rust-toolchain.toml ./
COPY src src
# The other members of the workspace: cargo reads every member's manifest.
COPY hack hack
RUN cargo build --locked --release --package quartet-operator --bin manager

FROM scratch AS prebuilt
ARG TARGETARCH=amd64
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
COPY --from=build --chmod=0755 /src/target/release/manager /manager
USER 65532:65532
EXPOSE 8081 8443 9443
ENTRYPOINT ["/manager"]
