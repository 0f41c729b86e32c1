#!/usr/bin/env bash
# Builds the fuzzers of the readers of files and runs them, as many at a time as there are cores.
#
#   scripts/fuzz.sh --runs NUMBER | --seconds NUMBER [FORMAT…]
#
# --runs gives each reader this many inputs, from a fixed seed. --seconds gives it new ones for that long, and keeps
# those that reached new code in build/inputs for the next time. FORMAT is a folder of tests/fuzz/corpus; default: all.
# The exit status is 0 if no reader failed, 1 if one did: its last input is then in build/failures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

usage() {
  sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
if (($# < 2)) || [[ ! $2 =~ ^[1-9][0-9]*$ ]]; then usage; fi
case $1 in
  --runs) export amount="-runs=$2 -seed=1" ;;
  --seconds) export amount="-max_total_time=$2" ;;
  *) usage ;;
esac
shift 2
formats=("$@")
if (($# == 0)); then formats=(tests/fuzz/corpus/*/); fi

build=build/asan+ubsan
begin_steps 4 "$build/log.txt"
only_build "$build"
step 'installing what is missing' scripts/setup.sh --tests
compiler=$(sanitizing_clang)
step 'configuring' cmake --preset asan+ubsan -DCMAKE_CXX_COMPILER="$compiler" -DBRAID_TESTS=ON
build_step 'building' cmake --build --preset asan+ubsan --target fuzzers
end_build

# fuzz FORMAT: prints a line, or what failed and how to reproduce it.
fuzz() {
  local format=$1 seeds=tests/fuzz/corpus/$1 inputs=build/inputs/$1 log=build/failures/$1.txt status=0
  if [[ $amount == -runs=* ]]; then inputs=$(mktemp -d); fi
  mkdir -p "$inputs"
  # Inputs are short, which keeps the readers fast. So is the stack, so that recursion as deep as an input overflows it.
  ulimit -S -s 1024
  # shellcheck disable=SC2086  # several options
  "build/asan+ubsan/bin/fuzz_$format" $amount -max_len=4096 -timeout=60 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="build/failures/$format-" "$inputs" "$seeds" >"$log" 2>&1 || status=$?
  if [[ $amount == -runs=* ]]; then rm -r "$inputs"; fi
  if ((status == 0)); then
    sed -n "s/^stat::number_of_executed_units: */$format: /p; s/^stat::average_exec_per_sec: */inputs, per second: /p" "$log" |
      paste -sd ' '
    return
  fi
  tail -n 60 "$log"
  echo "$format: FAILED; again: (ulimit -s 1024; build/asan+ubsan/bin/fuzz_$format" "build/failures/$format"-* ')'
  return 1
}
export -f fuzz
export UBSAN_OPTIONS=print_stacktrace=1

next_step "fuzzing ${#formats[@]} readers"
rm -rf build/failures
mkdir -p build/failures
printf '%s\n' "${formats[@]}" | xargs -n 1 basename | xargs -P "$(nproc)" -I FORMAT bash -c 'fuzz FORMAT' || exit 1
