#!/bin/sh
# Builds the documentation site from docs/ into target/site, and checks it: every page of docs/ is
# in SUMMARY.md and in its index, and every link within the site leads to an existing page and
# anchor. tests/docs checks the links of all Markdown files as GitHub shows them.
#
# REF  The branch or tag of the repository for links out of docs/ (main).
set -eu
cd "$(dirname "$0")/.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
copy=$target/site-source site=$target/site
repository=$(sed -n 's/^repository: *//p' packaging/project.yaml)
blob="$repository/blob/${REF:-main}"
mdbook=$(hack/cargo-tool.sh mdbook 0.5.4 --no-default-features --features search)
mermaid=$(hack/cargo-tool.sh mdbook-mermaid 0.17.1)
PATH="$mdbook:$mermaid:$PATH"

fail() {
    echo "site: $*" >&2
    exit 1
}

# pages: every page below docs/, except the table of contents.
pages() { (cd docs && find . -name '*.md' ! -path ./SUMMARY.md | sed 's|^\./||' | sort); }

for page in $(pages); do
    grep -qF "($page)" docs/SUMMARY.md || fail "docs/SUMMARY.md does not name $page"
    case $page in
    README.md | */README.md) ;;
    */*) grep -qF "(${page#*/})" "docs/${page%%/*}/README.md" || fail "docs/${page%%/*}/README.md does not name $page" ;;
    *) grep -qF "($page)" docs/README.md || fail "docs/README.md does not name $page" ;;
    esac
done

# Links out of docs/ lead to the repository. They begin with one ../ more than there are folders
# below docs/. A README.md becomes the index.html of its folder.
rm -rf "$copy" "$site"
mkdir -p "$copy"
cp -R docs/. "$copy"
for page in $(pages); do
    case $page in
    */*) up='\.\./\.\./' ;;
    *) up='\.\./' ;;
    esac
    sed "s|](${up}|]($blob/|g; s|](\\([a-z./]*\\)README\\.md|](\\1index.md|g" "docs/$page" >"$copy/$page"
done
mdbook-mermaid install "$copy" 2>/dev/null
MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL=$repository \
    mdbook build --dest-dir "$site" "$copy"

# Checks every id and every link of every page; 404.html is left out, because its folder is unknown.
(
    cd "$site"
    find . -type f | sed 's|^\./|file |'
    find . -name '*.html' ! -name 404.html | sed 's|^\./||' | while read -r page; do
        grep -oE ' (id|href|src)="[^"]*"' "$page" | sed "s|^ |$page |; s|=\"| |; s|\"\$||"
    done
) | awk '
    function normal(path,  parts, kept, count, i, n) {
        n = split(path, parts, "/"); count = 0; path = ""
        for (i = 1; i <= n; i++) {
            if (parts[i] == "..") count--
            else if (parts[i] != "." && parts[i] != "") kept[++count] = parts[i]
        }
        for (i = 1; i <= count; i++) path = path (i > 1 ? "/" : "") kept[i]
        return path
    }
    $1 == "file" { there[$2] = 1; next }
    $2 == "id" { there[$1 "#" $3] = 1; next }
    $3 != "" && $3 !~ /^[a-z]+:/ { links[$1 " " $3] = 1 }
    END {
        for (link in links) {
            checked++
            split(link, parts, " "); page = parts[1]
            anchor = path = parts[2]
            sub(/#.*/, "", path); if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
            folder = page; if (!sub(/[^\/]*$/, "", folder)) folder = ""
            to = path == "" ? page : normal(folder path)
            if (!(to in there) || (anchor != "" && to ~ /html$/ && !((to "#" anchor) in there))) {
                print "site: " page ": " parts[2] " is a broken link" | "sort >&2"; wrong = 1
            }
        }
        if (checked < 500) { print "site: only " checked + 0 " links were found" > "/dev/stderr"; wrong = 1 }
        exit wrong
    }'
echo "site: $site/index.html"
