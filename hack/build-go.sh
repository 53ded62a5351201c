#!/bin/sh
# Builds one of the Go modules beside this script, once per machine, and prints the folder of the
# result: hack/build-go.sh hack/kube
#
# The folder's name is a hash of everything that determines its contents (sources, go.mod, go.sum,
# tags, linker flags, Go version), so a second clone builds nothing. It is created under another
# name while a lock is held and then renamed, so it is complete or absent.
#
# Each module's build.env sets `title` and `expectation` (for the progress lines), `packages`,
# `tags`, `stamps` (-X flags) and `links` (LINK=BINARY pairs). `module_version NAME` returns a
# version from its go.mod.
#
# Standard output is only the path; progress goes to standard error.
set -eu

# Fewer collections take a fifth off the compiler's time.
export GOGC=400 GOMEMLIMIT=2GiB

fail() {
    echo "build-go: $*" >&2
    exit 1
}

[ $# -eq 1 ] && [ -f "$1/go.mod" ] && [ -f "$1/build.env" ] ||
    fail "usage: $0 MODULE_DIR (a folder with go.mod and build.env)"
cd "$1"
module=$(basename "$PWD")

# Prints the version of MODULE in go.mod.
module_version() {
    awk -v module="$1" '{ sub(/^require /, "") } $1 == module && $2 ~ /^v/ { print $2; exit }' go.mod
}

title='' expectation='' packages=. tags='' stamps='' links=''
. ./build.env

wanted=$(awk '$1 == "go" { print $2; exit }' go.mod)
install="install Go $wanted or newer from https://go.dev/dl and put it in PATH"
command -v go >/dev/null 2>&1 || fail "Go is missing: $install"
version=$(go env GOVERSION 2>/dev/null) || fail "Go is too old for $module: $install"
found=${version#go}
[ "$(printf '%s\n%s\n' "$wanted" "${found%% *}" | sort -V | head -n 1)" = "$wanted" ] ||
    fail "$version is too old for $module: $install"

ldflags="-s -w${stamps:+ $stamps}"
key=$({
    echo "$version $(go env GOOS GOARCH | tr '\n' ' ')tags=$tags ldflags=$ldflags packages=$packages links=$links"
    find -L . -type f \( -name '*.go' -o -name go.mod -o -name go.sum \) | LC_ALL=C sort |
        while read -r file; do sha256sum "$file"; done
} | sha256sum | cut -c 1-16)

cache="${XDG_CACHE_HOME:-$HOME/.cache}/quartet-operator/$module"
result="$cache/$key"
if [ -d "$result" ]; then
    echo "$result"
    exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
if ! flock --nonblock 9; then
    echo "build-go: waiting for another build of $title" >&2
    flock 9
fi
if [ -d "$result" ]; then
    echo "$result"
    exit 0
fi

temporary="$cache/building" # one is enough while the lock is held
rm -rf "$temporary"
mkdir "$temporary"
log="$temporary/build.log"

echo "building $title from source, once, $expectation: fetching its modules…" >&2
# $packages is a list, here and below.
# shellcheck disable=SC2086
dependencies=$(CGO_ENABLED=0 go list -tags "$tags" -deps $packages) ||
    fail "the modules of $title cannot be fetched (see above)"
total=$(echo "$dependencies" | wc -l)

# -v prints each package as it is compiled; cached packages are not printed. Debug information, which
# -w drops, is not made: another eighth of the compiler's time.
CGO_ENABLED=0 go build -v -trimpath -buildvcs=false -tags "$tags" -gcflags all=-dwarf=false \
    -ldflags "$ldflags" \
    -o "$temporary/" $packages 2>"$log" &
build=$!
trap 'kill "$build" 2>/dev/null; exit 130' INT TERM
ticks=0
while kill -0 "$build" 2>/dev/null; do
    sleep 1
    ticks=$((ticks + 1))
    if [ $((ticks % 15)) -eq 0 ]; then
        echo "building $title from source, once, $expectation: $(wc -l <"$log") of $total packages after $ticks s…" >&2
    fi
done
if ! wait "$build"; then
    tail -n 40 "$log" >&2
    fail "the build of $title failed"
fi

rm "$log"
for link in $links; do
    ln -s "${link#*=}" "$temporary/${link%%=*}"
done
mv "$temporary" "$result"
echo "built $title in $ticks s: $result" >&2
echo "$result"
