#!/usr/bin/env bash
# Builds everything with warnings as errors and runs the tests.
#
#   scripts/test.sh [--preset NAME] [--only FOLDER] [--build] [--thorough] [arguments of ctest]
#
# NAME is a preset of CMakePresets.json: release (default), debug, asan+ubsan, tsan, portable, … --only builds and runs the
# tests of one folder, as in: --only ops. --build runs none. --thorough makes every check of a sanitizer, in every test: hours.
# The last line counts test cases: "N passed, N failed, N skipped". The exit status is 0 only if none failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

preset=release
targets=()
tests=ON
thorough=OFF
while (($# > 0)); do
  case $1 in
    --preset) preset=${2:?--preset needs a name} ;;
    --only)
      targets=(--target "test_${2:?--only needs a folder of tests}")
      set -- "$@" --tests-regex "^$2(/|\$)"
      ;;
    --build | --thorough)
      if [[ $1 == --build ]]; then tests=OFF; else thorough=ON; fi
      shift
      continue
      ;;
    *) break ;;
  esac
  shift 2
done
build=build/$preset

# The first report of a sanitizer ends the program and fails its test. There are no suppressions.
export ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

begin_steps 4 "$build/log.txt"
only_build "$build"
step 'installing what is missing' scripts/setup.sh --tests
settings=(-DBRAID_WERROR=ON)
if [[ $preset == asan+ubsan ]]; then settings=("-DCMAKE_CXX_COMPILER=$(sanitizing_clang)"); fi  # others warn of other things
step "configuring $preset" \
  cmake --preset "$preset" "${settings[@]}" -DBRAID_THOROUGH=$thorough -DBRAID_TESTS=ON
grep '^-- CUDA backend' "$build/log.txt" 2>/dev/null || true  # or why there is none
build_step "building ($(about 1000) from scratch)" cmake --build --preset "$preset" "${targets[@]}"
end_build
if [[ $tests == OFF ]]; then exit; fi

next_step "testing ($(about 700))"
progress=()
if [[ -t 1 && -z ${CI-} ]]; then progress=(--progress); fi
report=$PWD/$build/Testing/report.xml
rm -f "$report"
status=0
# Two more tests than there are cores: some wait for a browser, a process or a clock.
ctest --test-dir "$build" "${progress[@]}" --parallel $(($(nproc) + 2)) --output-on-failure --no-tests=error --output-junit "$report" \
  --test-output-size-passed 10000000 --test-output-size-failed 10000000 "$@" || status=$?

gpu_tests=$(ctest --test-dir "$build" --show-only --label-regex '^gpu$' | sed -n 's/^Total Tests: //p')
if [[ $gpu_tests == 0 ]]; then echo 'gpu: skipped (this build has no CUDA backend)'; fi

scripts/count_tests.py "$report"
exit "$status"
