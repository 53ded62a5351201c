#!/usr/bin/env bash
# Builds, pushes and copies images with docker, podman or buildah.
#
#   hack/image.sh build IMAGE DOCKERFILE [CONTEXT [TARGET]]   one image, for this machine
#   hack/image.sh push IMAGE                                  to the registry in its name; an index with all its images
#   hack/image.sh tag IMAGE OTHER                             another name for an image built here
#   hack/image.sh multi IMAGE DOCKERFILE PLATFORMS [TARGET]   an image index, pushed
#   hack/image.sh binary ARCHITECTURE…                        target/image/<arch>/manager
#
# CONTAINER_TOOL is docker, podman or buildah; by default the first of these that is installed.
# SOURCE_DATE_EPOCH (seconds since 1970) is the date of every file and of the image, so that the
# same source gives the same digest (buildah and podman).
# PUSH_FLAGS and BUILD_FLAGS are passed to the tool unchanged.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "image: $*" >&2
    exit 1
}

tool() {
    local found=${CONTAINER_TOOL:-}
    if [ -z "$found" ]; then
        for found in docker podman buildah; do
            command -v "$found" >/dev/null && break
        done
    fi
    command -v "$found" >/dev/null ||
        fail "$found is missing: install one of docker, podman and buildah (Debian: apt-get install buildah), or name one with CONTAINER_TOOL"
    echo "$found"
}

# Prints Rust's target triple of an image architecture.
triple() {
    case $1 in
    amd64) echo x86_64-unknown-linux-musl ;;
    arm64) echo aarch64-unknown-linux-musl ;;
    *) fail "no image for the architecture '$1': amd64 or arm64" ;;
    esac
}

# Builds the static manager for each ARCHITECTURE. Paths of this machine are removed, so that two
# clones anywhere give the same bytes.
binary() {
    local architecture target installed variable toolchain
    local home=${CARGO_HOME:-$HOME/.cargo}
    for architecture in "$@"; do
        target=$(triple "$architecture")
        installed=$(rustc --print sysroot)/lib/rustlib/$target
        if [ ! -d "$installed" ]; then
            echo "image: fetching Rust's library for $target, once" >&2
            toolchain=$(rustc --print sysroot)
            timeout 300 rustup target add --toolchain "$(basename "$toolchain")" "$target" >&2 ||
                fail "Rust's library for $target is missing: rustup target add $target"
        fi
        if [ "$target" = aarch64-unknown-linux-musl ] && [ "$(uname -m)" != aarch64 ] &&
            ! command -v aarch64-linux-gnu-gcc >/dev/null; then
            fail "no C compiler for arm64: apt-get install gcc-aarch64-linux-gnu"
        fi
        variable=CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_RUSTFLAGS
        # A constant date, because cargo recompiles C code when it changes.
        env SOURCE_DATE_EPOCH=0 "$variable=--remap-path-prefix=$PWD=/src --remap-path-prefix=$home=/cargo" \
            cargo build --locked --release --target "$target" \
            --package quartet-operator --bin manager
        install -D -m 0755 "${CARGO_TARGET_DIR:-target}/$target/release/manager" \
            "target/image/$architecture/manager"
    done
}

# Prints the tool's option for the date of the image.
dated() {
    case $1 in
    docker) echo "--build-arg SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}" ;;
    *) echo "--timestamp ${SOURCE_DATE_EPOCH:-0}" ;;
    esac
}

build() {
    local image=$1 dockerfile=$2 context=${3:-.} target=${4:-} name
    name=$(tool)
    # The flags are lists.
    # shellcheck disable=SC2046,SC2086
    "$name" build $(dated "$name") ${target:+--target $target} ${BUILD_FLAGS:-} \
        --file "$dockerfile" --tag "$image" "$context"
}

push() {
    local name
    name=$(tool)
    # shellcheck disable=SC2086
    if [ "$name" != docker ] && "$name" manifest exists "$1"; then
        "$name" manifest push --all ${PUSH_FLAGS:-} "$1" "docker://$1"
    else
        "$name" push ${PUSH_FLAGS:-} "$1"
    fi
}

tag() {
    "$(tool)" tag "$1" "$2"
}

multi() {
    local image=$1 dockerfile=$2 platforms=$3 target=${4:-} name
    name=$(tool)
    # shellcheck disable=SC2046,SC2086
    if [ "$name" = docker ]; then
        docker buildx build $(dated docker) ${target:+--target $target} ${BUILD_FLAGS:-} \
            --platform "$platforms" --file "$dockerfile" --tag "$image" --push .
    else
        # What has this name: images would be added to an index, and one image is in the way.
        { "$name" manifest rm "$image" || "$name" rmi "$image" || true; } >/dev/null 2>&1
        # The default of buildah 1.28 is the platform of the image.
        "$name" build $(dated "$name") ${target:+--target $target} ${BUILD_FLAGS:-} \
            --build-arg "BUILDPLATFORM=linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')" \
            --platform "$platforms" --file "$dockerfile" --manifest "$image" .
        push "$image"
    fi
}

action=${1:-}
[ $# -eq 0 ] || shift
case $action in
build | push | tag | multi | binary) "$action" "$@" ;;
*) fail "usage: see the head of $0" ;;
esac
