#!/usr/bin/env bash
# The tests that take too long for every change: the whole fault campaign, upgrades from the previous
# release, the explorer with many plans, every #[ignore]d exploration, the oldest Kubernetes, fuzzing
# with many executions, many rolling restarts, attacks on the image's binary, Flux, Velero and the Python
# client beside the manager, the files and crates of a release, the Dockerfile, clippy on a new project,
# the product on a real node. Ends with a table of the stages, like .ci/run.
#
#     hack/nightly.sh [STAGE…]    these stages only
#
# BUDGET_MINUTES, ALLOW_SKIP  as for .ci/run; nothing may be skipped by default.
# NIGHTLY_SEED                the seed of fuzzing and explorer; a new one each night by default.
set -uo pipefail
cd "$(dirname "$0")/.."

BUDGET_MINUTES=${BUDGET_MINUTES:-840}
ALLOW_SKIP=${ALLOW_SKIP-}
seed=${NIGHTLY_SEED:-$(date +%s)}

declare -A least=([rollout]=2 [explorations]=3 [image]=5 [programs]=2 [faults]=3 [previous]=1 [explore]=0 [mutants]=0 [fuzz]=8 [oldest]=760 [python]=1 [release]=0 [dockerfile]=0 [project]=0 [e2e]=1)
stages=("$@")
for name in "${stages[@]}"; do
    if [ -z "${least[$name]-}" ]; then
        echo "nightly: there is no stage '$name': ${!least[*]}" >&2
        exit 64
    fi
done

source hack/stages.sh

# wanted NAME: whether this stage is selected; without arguments, all are.
wanted() { [ ${#stages[@]} = 0 ] || case " ${stages[*]} " in *" $1 "*) true ;; *) false ;; esac; }

say "the seed of this run: NIGHTLY_SEED=$seed"
! wanted rollout || stage rollout 15 make test-rollout RESTARTS=100
# In the libraries and the explorer every ignored test is an exploration; elsewhere they are stages.
if wanted explorations; then
    stage explorations 60 cargo test --release --locked --workspace --lib --test explorer -- --ignored
    stage explorations 20 make test TESTFLAGS='--test versions every_sequence -- --ignored'
fi
! wanted image || stage image 30 make test-image
! wanted programs || stage programs 40 make test-programs
! wanted faults || stage faults 60 make test-faults
! wanted previous || stage previous 30 make test-previous
if wanted explore; then
    stage explore 30 make explore PLANS=all
    stage explore 60 make explore PLANS=100000 SEED="$seed"
    stage explore 60 make explore-mutants
    stage explore 10 make reading-order
fi
! wanted mutants || stage mutants 300 make mutants SEED="$((seed % 1000000000))"
! wanted fuzz || stage fuzz 60 env FUZZ_SEED=$((seed % 2147483647)) make fuzz FUZZ_RUNS=1000000
! wanted oldest || stage oldest 60 make test-oldest TESTFLAGS=--no-fail-fast
if wanted python; then
    if python3 -m pip --version; then
        stage python 15 make test TESTFLAGS='--test cluster python -- --ignored'
    else
        skip python "it needs python3 with pip"
    fi
fi
# For both processors: the other one's compiler and emulator must be installed.
if wanted release; then
    stage release 60 make release-dry-run
    stage release 30 make publish-dry-run
fi
if wanted dockerfile; then
    if unshare --mount true; then
        stage dockerfile 30 make test-dockerfile
    else
        skip dockerfile "it needs root"
    fi
fi
# What is written into an empty folder, with the changes of docs/new-project.md.
! wanted project || stage project 30 bash -c 'hack/e2e/new-project.sh &&
    make -C "${CARGO_TARGET_DIR:-target}/new-project/redis-operator" CARGO_TARGET_DIR=../target lint'
! wanted e2e || stage_e2e 115
finish
