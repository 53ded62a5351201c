#!/usr/bin/env bash
# Builds the image as `docker build .` does, without a network: the builder image is this machine's
# own toolchain, crates and libraries, mounted read-only. Then changes a source file and builds
# again, which must take the dependencies from the layer of the first build. Needs buildah, root,
# and the crates of Cargo.lock (`cargo fetch`). Not optimized: only the Dockerfile is tested.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "test-dockerfile: $*" >&2
    exit 1
}

command -v buildah >/dev/null || fail "buildah is missing: apt-get install buildah"
export BUILDAH_ISOLATION=chroot
toolchain=$(realpath "$(rustc --print sysroot)")
home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
triple=$(uname -m)-unknown-linux-musl
[ -d "$toolchain/lib/rustlib/$triple" ] || fail "Rust's library is missing: rustup target add $triple"

work=$(mktemp -d)
builder=localhost/quartet-operator-builder
image=localhost/quartet-operator:test-dockerfile
# A storage folder of its own, which is removed as a whole with all layers.
export CONTAINERS_STORAGE_CONF=$work/storage.conf
cat >"$CONTAINERS_STORAGE_CONF" <<EOT
[storage]
driver = "overlay"
graphroot = "$work/storage"
runroot = "$work/run"
EOT
cleanup() {
    buildah umount --all >/dev/null 2>&1 || true
    umount "$work/storage/overlay" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

# A root file system of links into the mounted folders.
mkdir -p "$work/root/etc/alternatives" "$work/root/tmp" "$work/root/usr" "$work/root/toolchain" \
    "$work/root/cargo/registry"
for folder in bin sbin lib lib64; do
    [ ! -e "/$folder" ] || ln -s "usr/$folder" "$work/root/$folder"
done
cat >"$work/Builder" <<EOT
FROM scratch
COPY root /
ENV PATH=/toolchain/bin:/usr/bin:/bin CARGO_HOME=/cargo CARGO_NET_OFFLINE=true \
    CARGO_BUILD_TARGET=$triple CC_${triple//-/_}=cc CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
EOT
buildah build --quiet --file "$work/Builder" --tag "$builder" "$work" >/dev/null

# The files in git, as in a clone.
mkdir "$work/context"
git ls-files -z --cached --others --exclude-standard |
    xargs -0 cp --no-dereference --parents --preserve=mode,timestamps --target-directory="$work/context"

build() {
    local began=$SECONDS
    buildah build --layers --network=none --target image --build-arg "BUILDER_IMAGE=$builder" \
        --volume /usr:/usr:ro --volume /etc/alternatives:/etc/alternatives:ro \
        --volume "$toolchain:/toolchain:ro" --volume "$home/registry:/cargo/registry:ro" \
        --file "$work/context/Dockerfile" --tag "$image" "$work/context" >"$work/log" 2>&1 ||
        { tail -n 40 "$work/log" >&2; fail "the build failed"; }
    echo "built in $((SECONDS - began)) s, $(grep -c 'Using cache' "$work/log" || true) steps from the cache" >&2
}

build
echo '// changed' >>"$work/context/src/main.rs"
build
# The step that compiles the dependencies is the first RUN.
grep -A 4 'for main in' "$work/log" | grep -q 'Using cache' ||
    fail "the dependencies were compiled again"

container=$(buildah from "$image")
mounted=$(buildah mount "$container")
"$mounted/manager" --help >"$work/help" || fail "the manager of the image does not run"
files=$(find "$mounted" -type f | wc -l)
grep -q leader-elect "$work/help" || fail "the manager of the image does not know its flags"
[ "$files" = 1 ] || fail "$files files in the image, and not one"
echo "test-dockerfile: the image builds without a network and holds one file" >&2
