#!/usr/bin/env bash
# Checks that a node leaves nothing on this machine: mounts, links, firewall rules, cgroups and
# processes. `traces.sh COMMAND…` runs the command and fails if these differ afterwards.
set -uo pipefail

traces() {
    awk '{ print "mount", $2 }' /proc/mounts | sort
    for link in /sys/class/net/*; do echo "link ${link##*/}"; done
    { iptables-save; ip6tables-save; } 2>/dev/null | grep -v '^[#:]' | sed 's/^/rule /'
    find /sys/fs/cgroup -maxdepth 4 -type d \( -name 'kubepods*' -o -name 'devcluster*' \) 2>/dev/null |
        sed 's/^/cgroup /' | sort
    ps -eo pid=,comm= | awk '$2 ~ /^(containerd|kubelet|kube-proxy|docker-registry|runc)/ { print "process", $0 }'
}

before=$(traces)
status=0
"$@" || status=$?
# Stopping processes get a moment.
for _ in $(seq 50); do
    [ "$(traces)" = "$before" ] && break
    sleep 0.2
done
if difference=$(diff <(echo "$before") <(traces)); then
    echo "e2e: no mount, link, firewall rule, cgroup or process is left behind"
else
    echo "e2e: left behind (>) or taken away (<):"
    echo "$difference"
    [ "$status" != 0 ] || status=1
fi
exit "$status"
