#!/usr/bin/env bash
# Writes a new operator from the templates in hack/kind: its file, a sample of each
# version, and its line in the list src/kinds/mod.rs. `make kind` then generates the rest.
#
# KIND    e.g. Redis
# GROUP   e.g. cache.example.com
# PLURAL  The resource in URLs and roles (the kind in lower case, in the plural).
# SHORT   The short name for kubectl (two letters of the kind, or more if another type has that name).
# IMAGE   The image that it runs, with a tag (an nginx that listens on 8080).
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() {
    echo "kind: $1; e.g. make kind KIND=Redis GROUP=cache.example.com" >&2
    exit 64
}

# contains LIST WORD
contains() {
    [[ " $1 " == *[[:space:]]$2[[:space:]]* ]]
}

Kind=${KIND:-} group=${GROUP:-}
label='[a-z0-9]([-a-z0-9]*[a-z0-9])?' word='^[a-z][a-z0-9]*$'
[[ $Kind =~ ^[A-Z][A-Za-z0-9]+$ ]] || refuse "KIND is a name in CamelCase, not '$Kind'"
[[ $group =~ ^$label(\.$label)+$ ]] || refuse "GROUP is a domain in lower case, not '$group'"
case .$group in
*.k8s.io | *.kubernetes.io)
    refuse "GROUP: the API server keeps '$group' for Kubernetes"
    ;;
esac
kind=${Kind,,}
webhook=v$kind-v1alpha1.$group
[ ${#webhook} -le 63 ] ||
    refuse "KIND and GROUP: OLM uses '$webhook' as a label, which has at most 63 characters"
for file in {src,src/kinds}/"$kind"{,.rs}; do
    [ ! -e "$file" ] || refuse "KIND: $file exists already"
done
# The Rust Reference, "Keywords": strict and reserved ones.
keywords="abstract as async await become box break const continue crate do dyn else enum extern false final fn for
    gen if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true
    try type typeof unsafe unsized use virtual where while yield"
! contains "$keywords" "$kind" || refuse "KIND: '$kind' is a keyword of Rust"
# The type of the kind would hide these: those of std::prelude::rust_2024, and those in the templates.
prelude="AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box Clone Copy Default DoubleEndedIterator Drop Eq Err
    ExactSizeIterator Extend Fn FnMut FnOnce From FromIterator Future Hash Into IntoFuture IntoIterator Iterator
    None Ok Option Ord PartialEq PartialOrd Result Send Sized Some String Sync ToOwned ToString TryFrom TryInto
    Unpin Vec"
if contains "$prelude" "$Kind" || grep -qw "$Kind" <<<"$(grep -hv '^ *//' hack/kind/*.rs)"; then
    refuse "KIND: '$Kind' is a name that its own files need"
fi
# A test looks for the names of kinds in other code.
! grep -rqE --include='*.rs' --exclude=tests.rs --exclude-dir=tests \
    "[=!]= \"$Kind\"|\"$Kind\" (=>|\|)" src crates || refuse "KIND: the code calls something else '$Kind'"

# plural_of WORD: sets plural.
plural_of() {
    case $1 in
    *[^aeiou]y) plural=${1%y}ies ;;
    *s | *x | *ch | *sh) plural=${1}es ;;
    *) plural=${1}s ;;
    esac
}

# All names of the other types, whatever their group: `kubectl get NAME` finds one type.
names=
while read -r name; do
    plural_of "$name"
    names+=" $name $plural"
done < <(grep -v '^#' hack/kind/names.txt)
names+=" $(sed -nE 's/^    (kind|plural|short_name): "(.*)",$/\L\2/p' src/kinds/*.rs | tr '\n' ' ')"

plural_of "$kind"
plural=${PLURAL:-$plural}
consonants=${kind//[aeiou]/}
for short in "${consonants:0:2}" "${consonants:0:3}" "${kind:0:3}" "${kind:0:4}" "${kind:0:5}"; do
    if [[ $short =~ $word ]] && ! contains "$names" "$short"; then break; fi
done
short=${SHORT:-$short}
image=${IMAGE:-docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine}
[[ $plural =~ $word && ${#plural} -le 63 ]] || refuse "PLURAL is one word in lower case, not '$plural'"
[[ $short =~ $word && ${#short} -le 16 ]] || refuse "SHORT is one word in lower case, not '$short'"
[[ $image =~ ^[a-zA-Z0-9./_:@-]+:[A-Za-z0-9._-]+$ ]] || refuse "IMAGE has a tag, unlike '$image'"
! contains "$names" "$kind" || refuse "KIND: another type has the name '$kind'"
! contains "$names" "$plural" || refuse "PLURAL: another type has the name '$plural'"
! contains "$names" "$short" || refuse "SHORT: another type has the name '$short'"

# write TEMPLATE FILE
write() {
    sed "s|{Kind}|$Kind|g; s|{kind}|$kind|g; s|{KIND}|${Kind^^}|g; s|{plural}|$plural|g
         s|{group}|$group|g; s|{short}|$short|g; s|{image}|$image|g" "hack/kind/$1" >"$2"
    echo "wrote $2"
}

write kind.rs "src/kinds/$kind.rs"
for version in v1alpha1 v1; do
    write $version.yaml "config/samples/${group%%.*}_${version}_$kind.yaml"
done
sed -i "/^}\$/{x;/k/{x;s/^/    $kind::$Kind,\n/;b};s/^/k/;x}" src/kinds/mod.rs
rustfmt --edition 2024 "src/kinds/$kind.rs"
echo "added it to the list in src/kinds/mod.rs"
