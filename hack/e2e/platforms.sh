#!/usr/bin/env bash
# Pushes bundle and catalog for both processors, as a release does, and checks that the catalog's program
# is of the processor that each image names. `skopeo inspect` shows only the name. Run inside
# `devcluster run --node`, after `images.sh fetch` outside.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${CONTAINERS_STORAGE_CONF:?run this under devcluster run --node}"

fail() {
    echo "platforms: $*" >&2
    exit 1
}

export CONTAINER_TOOL=buildah BUILDAH_ISOLATION=chroot
images=registry.test/platforms
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Like the upstream image of opm, an index with both.
for architecture in amd64 arm64; do
    cp "$(GOARCH=$architecture hack/build-go.sh hack/opm)/opm" "$work/opm-$architecture"
done
cat >"$work/Dockerfile" <<'EOF'
FROM scratch
ARG TARGETARCH
COPY opm-$TARGETARCH /bin/opm
EOF
buildah build --quiet --platform linux/amd64,linux/arm64 --manifest "$images/opm" "$work" >/dev/null
buildah manifest push --quiet --all "$images/opm" "docker://$images/opm"

# After an image for this machine only, and twice.
make bundle-build BUNDLE_IMG="$images/bundle"
make bundle-buildx BUNDLE_IMG="$images/bundle"
make bundle-buildx BUNDLE_IMG="$images/bundle"
BUILD_FLAGS="--build-arg OPM_IMAGE=$images/opm" make catalog-buildx CATALOG_IMG="$images/catalog"
make catalog-push-following CATALOG_IMG="$images/catalog" CATALOG_FOLLOWING_IMG="$images/catalog:v0"

for image in bundle catalog catalog:v0; do
    platforms=$(skopeo inspect --raw "docker://$images/$image" | { grep -o '"architecture":"[^"]*"' || true; } | sort | xargs)
    [ "$platforms" = "architecture:amd64 architecture:arm64" ] || fail "$image is for '$platforms'"
done
# e_machine of the ELF header: x86-64 is 62, AArch64 is 183.
for expected in amd64:62 arm64:183; do
    architecture=${expected%:*}
    container=$(buildah from --pull-always --arch "$architecture" "docker://$images/catalog")
    machine=$(od -An -tu2 -j18 -N2 "$(buildah mount "$container")/bin/opm" | tr -d ' ')
    buildah rm "$container" >/dev/null
    [ "$machine" = "${expected#*:}" ] ||
        fail "the catalog's image for $architecture has an opm for the ELF machine $machine, not ${expected#*:}"
done
echo "platforms: bundle and catalog are for amd64 and arm64"
