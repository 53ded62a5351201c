#!/usr/bin/env bash
# Prints the Debian packages that `make test-e2e` needs and this machine lacks, in one line; nothing
# if all are installed. With --check, reports them on standard error and fails.
set -euo pipefail

# Each package with one of its commands or files.
packages=(buildah=buildah skopeo=skopeo runc=runc mount=mount iproute2=ip
    docker-registry=docker-registry iptables=iptables util-linux=unshare
    containernetworking-plugins=/usr/lib/cni/bridge busybox-static=/bin/busybox)

# A plain sudo may lack the folders that Debian has in PATH for a root login.
PATH=$PATH:/usr/sbin:/sbin
missing=()
for package in "${packages[@]}"; do
    command -v "${package#*=}" >/dev/null || missing+=("${package%%=*}")
done
if [ "${1:-}" != --check ]; then
    echo "${missing[*]}"
elif [ ${#missing[@]} -gt 0 ]; then
    echo "test-e2e: Debian packages are missing: apt-get install ${missing[*]}" >&2
    exit 1
fi
