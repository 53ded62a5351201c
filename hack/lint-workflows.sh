#!/bin/sh
# Checks the workflows of .github: actionlint reports nothing, and every action is pinned by commit,
# with its version as a comment. A tag can be moved to other code, a commit cannot.
set -eu
cd "$(dirname "$0")/.."

# Without shellcheck, which is not a Go module and differs between machines.
"$(hack/build-go.sh hack/actionlint)/actionlint" -shellcheck= -pyflakes=

uses=$(grep -nE '^\s*(- )?uses:' .github/workflows/*.yml)
loose=$(printf '%s\n' "$uses" |
    grep -vE 'uses: [A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$' || true)
if [ -n "$loose" ]; then
    echo "$loose" >&2
    echo "lint-workflows: name the actions above by commit, with the version behind it: uses: OWNER/NAME@<40 hex digits> # v1.2.3" >&2
    exit 1
fi
