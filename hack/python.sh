#!/bin/sh
# Installs the Python client of Kubernetes, once per machine, and prints its folder, for PYTHONPATH. Needs python3
# with pip.
set -eu
cd "$(dirname "$0")/python"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/quartet-operator/python"
result="$cache/$({ python3 -V && cat requirements.txt; } | sha256sum | cut -c 1-16)"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -d "$result" ]; then
    rm -rf "$cache/building"
    python3 -m pip install --quiet --target "$cache/building" --requirement requirements.txt >&2
    mv "$cache/building" "$result"
fi
echo "$result"
