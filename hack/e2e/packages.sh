#!/bin/sh
# Downloads a Debian package once and prints the file's path: hack/e2e/packages.sh nginx
#
# Names are those of Debian 12. Some libraries have the suffix t64 in Debian 13 and Ubuntu 24.04
# (https://wiki.debian.org/ReleaseGoals/64bit-time).
set -eu

[ $# -eq 1 ] || {
    echo "usage: $0 PACKAGE" >&2
    exit 64
}
folder="${XDG_CACHE_HOME:-$HOME/.cache}/quartet-operator/debian"
mkdir -p "$folder"
cd "$folder"
found() { find "$folder" -maxdepth 1 \( -name "$1_*.deb" -o -name "${1}t64_*.deb" \) | head -n 1; }
download() { apt-get download --quiet=2 -o APT::Sandbox::User=root "$1" >&2; }
if [ -z "$(found "$1")" ]; then
    download "$1" || download "${1}t64" || {
        echo "packages: $1 cannot be downloaded: run 'apt-get update' first" >&2
        exit 1
    }
fi
found "$1"
