#!/usr/bin/env bash
# Measures .ci/run in a new clone, with an empty compiler cache, and states the total.
#
#   scripts/ci_time.sh [--warm] [COMMAND…]
#
# --warm then changes a source of ops and measures again, with what the cache has kept. COMMAND runs in place of .ci/run, as
# in: scripts/ci_time.sh scripts/test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
warm=false
if [[ ${1-} == --warm ]]; then
  warm=true
  shift
fi
command=(.ci/run)
if (($# > 0)); then command=("$@"); fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CI=true CCACHE_DIR=$work/ccache

# measure NAME CLONE: runs the command there.
measure() {
  local begin=$SECONDS status=0
  (cd "$2" && "${command[@]}") || status=$?
  printf 'ci_time: %s: %s took %d s, exit status %d\n' "$1" "${command[*]}" $((SECONDS - begin)) "$status"
  return "$status"
}

git clone --quiet . "$work/cold"
measure 'empty cache' "$work/cold"
rm -rf "$work/cold"
if $warm; then
  git clone --quiet . "$work/warm"
  printf '\nnamespace braid {\nextern const int kMeasured;\nconst int kMeasured = 1;\n}  // namespace braid\n' >>"$work/warm/ops/pool/pool.cpp"
  BRAID_CI_BASE=HEAD measure 'warm cache, one source of ops changed' "$work/warm"
fi
