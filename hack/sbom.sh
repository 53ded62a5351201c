#!/bin/sh
# Writes the software bill of materials of the manager, as CycloneDX, beside the binary of the
# image: target/image/manager.cdx.json. Only normal dependencies of the released target.
set -eu
cd "$(dirname "$0")/.."

cyclonedx=$(hack/cargo-tool.sh cargo-cyclonedx 0.5.9)
PATH="$cyclonedx:$PATH" cargo cyclonedx --quiet --format json --spec-version 1.5 \
    --target x86_64-unknown-linux-musl --no-build-deps \
    --override-filename manager.cdx
mkdir -p target/image
# Without the path of the source on this machine.
sed "s|file://$PWD|file:///src|g" manager.cdx.json >target/image/manager.cdx.json
# cargo-cyclonedx writes one for each workspace member; cargo publishes no crate with an uncommitted file.
rm manager.cdx.json crates/*/manager.cdx.json tools/*/manager.cdx.json
echo "target/image/manager.cdx.json"
