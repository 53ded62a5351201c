#!/usr/bin/env bash
# The steps of a release. .github/workflows/release.yml also runs them.
#
#   hack/release.sh check [VERSION]     whether this commit can be released as VERSION
#   hack/release.sh notes VERSION       the section of CHANGELOG.md
#   hack/release.sh artifacts VERSION ARCHITECTURE…
#       everything that users download, in target/release-artifacts, with checksums
#   hack/release.sh digest NAME         the digest of an image or a chart in its registry
#
# PROJECT and CHANGELOG are the files and CATALOG is the folder that it reads; ARTIFACTS is the folder
# that it writes.
set -euo pipefail
cd "$(dirname "$0")/.."

PROJECT=${PROJECT:-packaging/project.yaml}
CHANGELOG=${CHANGELOG:-CHANGELOG.md}
CATALOG=${CATALOG:-catalog/quartet-operator}
ARTIFACTS=${ARTIFACTS:-target/release-artifacts}

fail() {
    echo "release: $*" >&2
    exit 1
}

sources_version() { sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1; }

# Prints all problems, not only the first one.
check() {
    local version=${1:-$(sources_version)} failed=0 field value file
    problem() {
        echo "release: $*" >&2
        failed=1
    }
    [ "$version" = "$(sources_version)" ] ||
        problem "Cargo.toml has the version $(sources_version), not $version"
    grep -qE "^## ${version//./\\.} – [0-9]{4}-[0-9]{2}-[0-9]{2}$" "$CHANGELOG" ||
        problem "$CHANGELOG has no heading '## $version – YYYY-MM-DD'"
    for field in repository images maintainer email reviewers; do
        value=$(sed -n "s/^$field: *//p" "$PROJECT")
        # Nobody can own example.com and similar domains (RFC 2606), nor the account
        # quartet-operator.
        if [[ -z $value || $value =~ example\.(com|org|net) || $value =~ \.(example|test|invalid)$ ||
            $value =~ (^|/)quartet-operator/ || $value = quartet-operator ]]; then
            problem "$PROJECT: '$field: $value' is a placeholder; see CONTRIBUTING.md, 'What only the owner decides'"
        fi
    done
    while read -r value; do
        problem "$value names the account quartet-operator, which nobody owns"
    done < <(git grep -lE '(ghcr\.io|github\.com|githubusercontent\.com)/quartet-operator/' -- '*.md')
    # Made again, an earlier file would name its images by tags, which a mirror of digests lacks.
    for file in "$CATALOG"/quartet-operator.v*.yaml; do
        [ ! -e "$file" ] || [ "${file##*/quartet-operator.v}" = "$version.yaml" ] ||
            grep -q '^image: .*@sha256:' "$file" ||
            problem "$file names its bundle by a tag: take the file from olm-….tar.gz of that release"
    done
    [ -z "$(git status --porcelain)" ] || problem "there are uncommitted changes"
    return "$failed"
}

notes() {
    awk -v version="$1" '
        /^## / { inside = ($2 == version) ; next }
        inside { print; found = 1 }
        END { exit !found }' "$CHANGELOG" || fail "$CHANGELOG has no section $1"
}

# Checks that the binary for ARCHITECTURE runs, in an emulator on another architecture.
answers() {
    local version=$1 architecture=$2 binary=$ARTIFACTS/manager-linux-$2 name emulator=() said
    case $architecture in
    amd64) name=x86_64 ;;
    arm64) name=aarch64 ;;
    esac
    if [ "$name" != "$(uname -m)" ]; then
        emulator=("qemu-$name-static")
        command -v "${emulator[0]}" >/dev/null ||
            fail "no emulator to try the binary for $architecture with: apt-get install qemu-user-static"
    fi
    said=$("${emulator[@]}" "$binary" --version) || fail "the binary for $architecture does not run"
    [ "${said##* }" = "$version" ] || fail "the binary for $architecture says '$said', not $version"
}

# Creates an archive of folders, identical for identical files.
archive() {
    local name=$1
    shift
    tar --create --sort=name --format=ustar --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 \
        --numeric-owner --mode=a=rX,u+w "$@" | gzip --no-name --best >"$ARTIFACTS/$name.tar.gz"
}

artifacts() {
    local version=$1 architecture date
    shift
    date=$(date --utc --date="@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
    rm -rf "$ARTIFACTS"
    mkdir -p "$ARTIFACTS"
    hack/image.sh binary "$@"
    for architecture in "$@"; do
        install -m 0755 "target/image/$architecture/manager" "$ARTIFACTS/manager-linux-$architecture"
        answers "$version" "$architecture"
    done
    hack/sbom.sh >/dev/null
    # A serial number and a timestamp would make each build different.
    sed -e '/^ *"serialNumber":/d' -e "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$date\"/" \
        target/image/manager.cdx.json >"$ARTIFACTS/manager.cdx.json"
    install -m 0644 dist/install.yaml dist/images.txt "$ARTIFACTS"
    hack/package-chart.sh dist/chart "$ARTIFACTS" >/dev/null
    archive "olm-$version" bundle catalog
    rm -rf target/community-operators
    make --no-print-directory community-operators VERSION="$version" COMMUNITY_DIR= >/dev/null
    archive "community-operators-$version" --directory=target/community-operators operators
    (cd "$ARTIFACTS" && LC_ALL=C sha256sum -- * >SHA256SUMS.part && mv SHA256SUMS.part SHA256SUMS)
    cat "$ARTIFACTS/SHA256SUMS"
}

# `skopeo inspect` without --raw rejects a chart (https://github.com/containers/skopeo/issues/1933).
digest() {
    local sum
    sum=$(skopeo inspect --raw "docker://$1" | sha256sum) || fail "no digest of $1"
    echo "sha256:${sum%% *}"
}

action=${1:-}
[ $# -eq 0 ] || shift
case $action in
check) check "$@" ;;
notes) [ $# -eq 1 ] || fail "usage: see the head of $0"
    notes "$@" ;;
artifacts) [ $# -ge 2 ] || fail "usage: see the head of $0"
    artifacts "$@" ;;
digest) [ $# -eq 1 ] || fail "usage: see the head of $0"
    digest "$@" ;;
*) fail "usage: see the head of $0" ;;
esac
