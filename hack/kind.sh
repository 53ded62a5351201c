#!/usr/bin/env bash
# Writes a new operator from the templates in hack/kind: one file for its API, one for its behavior,
# a sample of each version, and its line in the list src/kinds.rs. `make kind` then generates the rest.
#
# KIND    e.g. Redis
# GROUP   e.g. cache.example.com
# PLURAL  The resource in URLs and roles (the kind in lower case, in the plural).
# SHORT   The short name for kubectl (two letters of the kind).
# IMAGE   The image that it runs, with a tag (an nginx that listens on 8080).
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() {
    echo "kind: $1; e.g. make kind KIND=Redis GROUP=cache.example.com" >&2
    exit 64
}

Kind=${KIND:-} group=${GROUP:-}
label='[a-z0-9]([-a-z0-9]*[a-z0-9])?'
[[ $Kind =~ ^[A-Z][A-Za-z0-9]{1,62}$ ]] || refuse "KIND is a name in CamelCase, not '$Kind'"
[[ $group =~ ^$label(\.$label)+$ && ${#group} -le 190 ]] ||
    refuse "GROUP is a domain in lower case, not '$group'"
kind=${Kind,,} consonants=$(tr -d aeiou <<<"${Kind,,}")
case $kind in
*[^aeiou]y) plural=${kind%y}ies ;;
*s | *x | *ch | *sh) plural=${kind}es ;;
*) plural=${kind}s ;;
esac
plural=${PLURAL:-$plural}
short=${SHORT:-${consonants:0:2}}
image=${IMAGE:-docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine}
[[ $plural =~ ^[a-z][a-z0-9]{1,62}$ ]] || refuse "PLURAL is one word in lower case, not '$plural'"
[[ $short =~ ^[a-z][a-z0-9]{0,15}$ ]] || refuse "SHORT is one word in lower case, not '$short'"
[[ $image =~ ^[a-zA-Z0-9./_:@-]+:[A-Za-z0-9._-]+$ ]] || refuse "IMAGE has a tag, unlike '$image'"
for file in {src/api,src/operators}/"$kind"{,.rs}; do
    [ ! -e "$file" ] || refuse "KIND: $file exists already"
done
# The Rust Reference, "Keywords": strict and reserved ones.
keywords=" abstract as async await become box break const continue crate do dyn else enum extern false final fn for
    gen if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true
    try type typeof unsafe unsized use virtual where while yield "
[[ $keywords != *[[:space:]]$kind[[:space:]]* ]] || refuse "KIND: '$kind' is a keyword of Rust"
! grep -qs "short_name: \"$short\"" src/api/*.rs || refuse "SHORT: another kind has the short name '$short'"
! grep -qs "plural: \"$plural\"" src/api/*.rs || refuse "PLURAL: another kind is called '$plural'"

# write TEMPLATE FILE
write() {
    sed "s|{Kind}|$Kind|g; s|{kind}|$kind|g; s|{KIND}|${Kind^^}|g; s|{plural}|$plural|g
         s|{group}|$group|g; s|{short}|$short|g; s|{image}|$image|g" "hack/kind/$1" >"$2"
    echo "wrote $2"
}

write api.rs "src/api/$kind.rs"
write operator.rs "src/operators/$kind.rs"
for version in v1alpha1 v1; do
    write $version.yaml "config/samples/${group%%.*}_${version}_$kind.yaml"
done
sed -i "/^        }\$/s/^/            $kind::$Kind,\n/" src/kinds.rs
rustfmt --edition 2024 "src/api/$kind.rs" "src/operators/$kind.rs"
echo "added it to the list in src/kinds.rs"
