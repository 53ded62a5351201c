# The roles view, edit and admin of Kubernetes, and what each may do with the four kinds.
# shellcheck disable=SC2046
kubectl apply $(printf -- ' -f %s' config/rbac/*_{admin,editor,viewer}_role.yaml)
may() {
    kubectl auth can-i --list --no-headers --as="$1-er" | tr -d '[]' | awk '
        /^(memcacheds|nginxes|elasticwebs|helloworlds)\./ { sub(/\..*\.com/, "", $1); $1 = $1; print }' | sort
}
expected() {
    for kind in elasticwebs helloworlds memcacheds nginxes; do
        echo "$kind $1"
        [ $kind = elasticwebs ] || echo "$kind/scale $2"
        echo "$kind/status get"
    done
}
may_only() {
    kubectl create rolebinding "$1" --clusterrole="$1" --user="$1-er"
    wanted=$(expected "$2" "$3")
    has() {
        found=$(may "$role")
        [ "$found" = "$wanted" ]
    }
    role=$1 eventually has
}
all='create delete get list patch update watch'
may_only view 'get list watch' get
may_only edit "$all" 'get patch update'
may_only admin "$all *" 'get patch update *'
