#!/usr/bin/env bash
# Builds the images that pods of the end-to-end tests run, without a network, and pushes them to the
# node's registry. Run inside `devcluster run --node`, after `images.sh fetch` outside.
#
# Our own images, and those whose programs are Go modules, are real, but based on busybox instead of
# the upstream base image. The operand images (memcached, nginx, redis) are replacements built from
# Debian packages, with the ports and users of the official ones.
set -euo pipefail
cd "$(dirname "$0")/../.."

memcached_packages="memcached libc6 libevent-2.1-7 libssl3 libsasl2-2 libdb5.3 zlib1g libzstd1"
nginx_packages="nginx nginx-common libc6 libcrypt1 libpcre2-8-0 libssl3 zlib1g"
redis_packages="redis-server redis-tools libc6 libatomic1 libjemalloc2 liblzf1 libssl3 libsystemd0
    libcap2 libgcrypt20 libgpg-error0 liblz4-1 liblzma5 libzstd1 libgcc-s1 libstdc++6"

# Everything that needs a network is fetched and built before.
if [ "${1:-}" = fetch ]; then
    for module in olm opm olm-v1 operator-sdk coredns cert-manager helm metrics-server flux-controllers velero; do
        hack/build-go.sh "hack/$module" >/dev/null
    done
    # For platforms.sh.
    for architecture in amd64 arm64; do
        GOARCH=$architecture hack/build-go.sh hack/opm >/dev/null
    done
    for package in $memcached_packages $nginx_packages $redis_packages; do
        hack/e2e/packages.sh "$package" >/dev/null
    done
    exit 0
fi
: "${CONTAINERS_STORAGE_CONF:?run this under devcluster run --node}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "images: $*"; }

# image NAME…: builds the folder of that Dockerfile and pushes it under every NAME. Only the path of
# a name matters, because the registry serves all hosts.
image() {
    local context=$1 name
    shift
    buildah bud --quiet --isolation chroot --tag "built/$(basename "$context")" "$context" >/dev/null
    for name in "$@"; do
        buildah push --quiet "built/$(basename "$context")" "docker://registry.test/$name"
    done
    say "$*"
}

# context NAME: creates a folder for a Dockerfile and its files; reads the Dockerfile from standard
# input.
context() {
    mkdir -p "$work/$1"
    cat >"$work/$1/Dockerfile"
}

# Busybox, statically linked: shell and tools of the images that need some. No ENTRYPOINT, because
# the scorecard's first container passes only arguments.
mkdir -p "$work/busybox/bin" "$work/busybox/etc" "$work/busybox/tmp"
cp /bin/busybox "$work/busybox/bin/"
for name in $(/bin/busybox --list); do
    [ "$name" = busybox ] || ln -s busybox "$work/busybox/bin/$name"
done
printf 'root:x:0:0:root:/:/bin/sh\nnonroot:x:1001:0:nonroot:/tmp:/bin/sh\n' >"$work/busybox/etc/passwd"
printf 'root:x:0:\n' >"$work/busybox/etc/group"
printf 'hosts: files dns\n' >"$work/busybox/etc/nsswitch.conf"
chmod 1777 "$work/busybox/tmp"
context busybox <<'EOF'
FROM scratch
COPY bin /bin
COPY etc /etc
COPY --chown=1001:0 tmp /tmp
ENV PATH=/bin
USER 1001
CMD ["/bin/sh"]
EOF
# The second name is operator-sdk's default image for unpacking bundles.
image "$work/busybox" base/busybox:1 ubi9/ubi:9.8

# The sandbox image of pods, under containerd's default name.
context pause <<'EOF'
FROM registry.test/base/busybox:1
USER 65535
ENTRYPOINT ["/bin/sleep", "infinity"]
EOF
image "$work/pause" pause:3.10.2 pause:3.10.1 pause:3.10

olm=$(hack/build-go.sh hack/olm)
sdk=$(hack/build-go.sh hack/operator-sdk)

context olm <<'EOF'
FROM registry.test/base/busybox:1
COPY olm catalog cpb copy-content /bin/
USER 1001
EOF
cp "$olm"/{olm,catalog,cpb,copy-content} "$work/olm/"
image "$work/olm" operator-framework/olm:v0.46.0

olm_v1=$(hack/build-go.sh hack/olm-v1)
for part in catalogd operator-controller; do
    context "$part" <<EOF
FROM registry.test/base/busybox:1
COPY $part /
ENTRYPOINT ["/$part"]
EOF
    cp "$olm_v1/$part" "$work/$part/"
    image "$work/$part" "operator-framework/$part:v1.5.1"
done

context opm <<'EOF'
FROM registry.test/base/busybox:1
COPY opm /bin/opm
COPY grpc-health-probe /bin/grpc_health_probe
COPY --chown=1001:0 configs /configs
LABEL operators.operatorframework.io.index.configs.v1=/configs
USER 1001
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs"]
EOF
mkdir "$work/opm/configs"
cp "$olm/grpc-health-probe" "$(hack/build-go.sh hack/opm)/opm" "$work/opm/"
image "$work/opm" operator-framework/opm:latest operator-framework/opm:v1.73.0

context scorecard-test <<'EOF'
FROM registry.test/base/busybox:1
COPY scorecard-test /usr/local/bin/scorecard-test
ENV PATH=/usr/local/bin:/bin
EOF
cp "$sdk/scorecard-test" "$work/scorecard-test/"
image "$work/scorecard-test" operator-framework/scorecard-test:v1.42.3

context coredns <<'EOF'
FROM scratch
COPY coredns /coredns
ENTRYPOINT ["/coredns"]
EOF
cp "$(hack/build-go.sh hack/coredns)/coredns" "$work/coredns/"
image "$work/coredns" coredns/coredns:v1.14.2

context cert-manager <<'EOF'
FROM scratch
COPY cert-manager /cert-manager
USER 1000
ENTRYPOINT ["/cert-manager"]
EOF
cp "$(hack/build-go.sh hack/cert-manager)/cert-manager" "$work/cert-manager/"
image "$work/cert-manager" jetstack/cert-manager:v1.21.2

context metrics-server <<'EOF'
FROM scratch
COPY metrics-server /metrics-server
USER 1000
ENTRYPOINT ["/metrics-server"]
EOF
cp "$(hack/build-go.sh hack/metrics-server)/metrics-server" "$work/metrics-server/"
image "$work/metrics-server" metrics-server/metrics-server:v0.9.0

# unpack FOLDER PACKAGE…: extracts Debian packages from the folder of downloaded packages that
# `hack/e2e/packages.sh` filled.
unpack() {
    local folder=$1 package
    shift
    for package in "$@"; do
        dpkg-deb --extract "$("$PWD"/hack/e2e/packages.sh "$package")" "$folder"
    done
}

context memcached <<'EOF'
# A replacement for the official image: Debian's memcached, with its port and user name.
FROM scratch
COPY root /
USER memcache
EXPOSE 11211
ENTRYPOINT ["/usr/bin/memcached"]
EOF
# A list.
# shellcheck disable=SC2086
unpack "$work/memcached/root" $memcached_packages
mkdir -p "$work/memcached/root/etc" "$work/memcached/root/tmp"
printf 'root:x:0:0:root:/:/bin/sh\nmemcache:x:11211:11211::/:/bin/false\n' >"$work/memcached/root/etc/passwd"
printf 'root:x:0:\nmemcache:x:11211:\n' >"$work/memcached/root/etc/group"
# The second name is that of operator-sdk's scaffold.
image "$work/memcached" library/memcached:1.6.39-alpine library/memcached:1.4.36-alpine

context redis <<'EOF'
# A replacement for the official image: Debian's redis, with its port and user ID.
FROM scratch
COPY root /
USER 999
EXPOSE 6379
ENV PATH=/usr/bin
CMD ["redis-server"]
EOF
# shellcheck disable=SC2086
unpack "$work/redis/root" $redis_packages
mkdir -p "$work/redis/root/etc" "$work/redis/root/tmp"
printf 'redis:x:999:999::/:/bin/false\n' >"$work/redis/root/etc/passwd"
# The second name is the image of the upgrade.
image "$work/redis" library/redis:8-alpine library/redis:8.2-alpine

# nginx FOLDER PORT: creates configuration and page of the nginx replacements.
nginx() {
    local root=$work/$1/root
    # shellcheck disable=SC2086
    unpack "$root" $nginx_packages
    rm -rf "$root"/etc/nginx/sites-* "$root"/etc/nginx/modules-* "$root"/var/www/html
    mkdir -p "$root/usr/share/nginx/html" "$root/tmp" "$root/var/log/nginx" "$root/var/lib/nginx"
    chmod 1777 "$root/tmp" "$root/var/lib/nginx" "$root/var/log/nginx"
    printf 'root:x:0:0:root:/:/bin/sh\nnginx:x:101:101::/:/bin/false\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnginx:x:101:\n' >"$root/etc/group"
    echo '<title>Welcome to nginx!</title>' >"$root/usr/share/nginx/html/index.html"
    cat >"$root/etc/nginx/nginx.conf" <<EOF
$3
worker_processes 1;
daemon off;
pid /tmp/nginx.pid;
error_log /dev/stderr;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path /tmp/client;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    server { listen $2; root /usr/share/nginx/html; }
}
EOF
}

context nginx-unprivileged <<'EOF'
# A stand-in for the official image: Debian's nginx, with its port and its user.
FROM scratch
COPY root /
USER 101
EXPOSE 8080
STOPSIGNAL SIGQUIT
ENTRYPOINT ["/usr/sbin/nginx"]
EOF
nginx nginx-unprivileged 8080 ""
# The first is our default, the second that of an ElasticWeb of the old operators.
image "$work/nginx-unprivileged" nginxinc/nginx-unprivileged:1.28.3-alpine nginxinc/nginx-unprivileged:1.28-alpine

context nginx <<'EOF'
# A stand-in for the official image: Debian's nginx, with its port, begun as root.
FROM scratch
COPY root /
EXPOSE 80
STOPSIGNAL SIGQUIT
ENTRYPOINT ["/usr/sbin/nginx"]
EOF
nginx nginx 80 "user nginx;"
# The first is that of the samples, the others are those of the old operators.
image "$work/nginx" library/nginx:1.28.3-alpine library/nginx:1.17.1 library/nginx:1.14.2 library/nginx:latest
