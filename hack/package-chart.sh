#!/usr/bin/env bash
# Packages the Helm chart in FOLDER: hack/package-chart.sh FOLDER OUTPUT
#
# Helm writes the time of packaging into the archive, so tar creates it: the same chart gives the
# same file. It has the files that `helm package` would include; Helm parses it before it is
# renamed.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -eq 2 ] || {
    echo "usage: $0 FOLDER OUTPUT" >&2
    exit 64
}
helm=$(hack/build-go.sh hack/helm)/helm
field() { sed -n "s/^$1: *//p" "$2/Chart.yaml"; }
name=$(field name "$1")
package=$2/$name-$(field version "$1").tgz
mkdir -p "$2"
tar --create --directory="$1" --transform="s|^\.|$name|" --sort=name --format=ustar \
    --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner --mode=a=rX,u+w \
    --exclude=./.helmignore . | gzip --no-name --best >"$package.part"
"$helm" show chart "$package.part" >/dev/null
mv "$package.part" "$package"
echo "$package"
