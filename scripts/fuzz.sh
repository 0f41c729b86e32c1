#!/usr/bin/env bash
# Builds the fuzzers of the readers of files and runs them, as many at a time as there are cores.
#
#   scripts/fuzz.sh --runs NUMBER | --seconds NUMBER [FORMAT…]
#
# --runs gives each reader this many inputs, from a fixed seed. --seconds gives it new ones for that long, and keeps
# those that reached new code in build/fuzz/inputs for the next time. FORMAT is a folder of tests/fuzz/corpus; default:
# all. The exit status is 0 if no reader failed, 1 if one did: its last input is then in build/fuzz/failures. It is 77 if
# Clang's libFuzzer is not installed.
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

build=build/fuzz
begin_steps 4 "$build/log.txt"
only_build "$build"
step 'installing what is missing' scripts/setup.sh --tests
compiler=
for name in clang++ clang++-{20..14}; do
  if "$name" -fsanitize=fuzzer,address -x c++ -o "$build/probe" - 2>/dev/null \
    <<<'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'; then
    compiler=$name
    break
  fi
done
if [[ -z $compiler ]]; then
  echo "fuzzing: skipped (Clang's libFuzzer is not installed: Debian's packages clang and libclang-rt-dev)"
  exit 77
fi
step 'configuring fuzz' cmake --preset fuzz -DCMAKE_CXX_COMPILER="$compiler"
build_step 'building' cmake --build --preset fuzz
end_build

# fuzz FORMAT: prints a line, or what failed and how to repeat it.
fuzz() {
  local format=$1 seeds=tests/fuzz/corpus/$1 inputs=build/fuzz/inputs/$1 log=build/fuzz/failures/$1.txt status=0
  if [[ $amount == -runs=* ]]; then inputs=$(mktemp -d); fi
  mkdir -p "$inputs"
  # Inputs are short, which keeps the readers fast. So is the stack, so that recursion as deep as an input overflows it.
  ulimit -S -s 1024
  # A minute for an input ends a hang only: on a busy machine a reader waits for its core most of the time.
  # shellcheck disable=SC2086  # several options
  "build/fuzz/bin/fuzz_$format" $amount -max_len=4096 -timeout=60 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/failures/$format-" "$inputs" "$seeds" >"$log" 2>&1 || status=$?
  if [[ $amount == -runs=* ]]; then rm -r "$inputs"; fi
  if ((status == 0)); then
    sed -n "s/^stat::number_of_executed_units: */$format: /p; s/^stat::average_exec_per_sec: */inputs, per second: /p" "$log" |
      paste -sd ' '
    return
  fi
  tail -n 60 "$log"
  echo "$format: FAILED; again: (ulimit -s 1024; build/fuzz/bin/fuzz_$format" "build/fuzz/failures/$format"-* ')'
  return 1
}
export -f fuzz
export UBSAN_OPTIONS=print_stacktrace=1

next_step "fuzzing ${#formats[@]} readers"
rm -rf "$build/failures"
mkdir -p "$build/failures"
printf '%s\n' "${formats[@]}" | xargs -n 1 basename | xargs -P "$(nproc)" -I FORMAT bash -c 'fuzz FORMAT' || exit 1
