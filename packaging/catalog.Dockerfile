# The image of the catalog, which serves the catalog.
ARG OPM_IMAGE=quay.io/operator-framework/opm:v1.73.0
# The cache is the same on every platform.
FROM --platform=$BUILDPLATFORM ${OPM_IMAGE} AS builder
ADD $FOLDER$ /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

# buildah 1.28 would use the builder's platform again.
FROM --platform=$TARGETPLATFORM ${OPM_IMAGE}
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache
LABEL operators.operatorframework.io.index.configs.v1=/configs
