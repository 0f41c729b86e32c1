#!/usr/bin/env bash
# Checks what .ci/run leaves out, because it takes hours: fuzzes the readers of files for a minute each, compiles every source
# alone, runs the tests without oneDNN, with shared libraries, and with every check of the sanitizers, checks all CUDA kernels, the
# plans of all convolutions, the exports of all networks, predictions of published measurements and the oldest CUDA, runs the tests
# ten times alongside busy loops, compares the planner in WebAssembly with the program, trains in 10,000 simulated clusters that fail
# and on several ranks for 100 steps, then verifies plans of a million random step graphs, by every policy on 1 to 64 streams, on all
# cores.
#
#   scripts/nightly.sh [--only PART] [GRAPHS [FIRST_SEED]]
#
# Default: 1000000 GRAPHS from FIRST_SEED 0; other seeds give other graphs. With --only, just the parts whose names contain
# PART, as in: --only fuzzing. Prints each failure as it occurs, with the seed that reproduces it, and finally what each part
# took. The exit status is 0 only if nothing failed.
# shellcheck disable=SC2317  # functions are called through part
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

only=
if [[ ${1-} == --only ]]; then
  only=${2:?--only needs a part of a name}
  shift 2
fi
graphs=${1:-1000000}
first=${2:-0}
if (($# > 2)) || [[ ! $graphs =~ ^[1-9][0-9]*$ || ! $first =~ ^[0-9]+$ ]]; then
  echo 'usage: scripts/nightly.sh [--only PART] [GRAPHS [FIRST_SEED]]' >&2
  exit 2
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # as for the tests

parts=() failed=0
# part NAME COMMAND…: continues after a failure. Status 77: skipped.
part() {
  local name=$1 begin=$SECONDS status=0
  shift
  if [[ $name != *"$only"* ]]; then return; fi
  printf '\n==== %s\n' "$name"
  "$@" || status=$?
  parts+=("$(printf '%6d s  %s, exit status %d' $((SECONDS - begin)) "$name" "$status")")
  ((status == 0 || status == 77)) || failed=1
}

alone() {
  cmake --preset release -B build/single -DBRAID_UNITY=OFF -DBRAID_TESTS=ON -DBRAID_BENCHMARKS=ON &&
    cmake --build build/single -- -k 0  # all that fail
}

kernels() {
  command -v nvcc >/dev/null || return 77
  scripts/check_kernels.py build/release
}

simulate() {
  local first status=0
  for first in 0 5000; do
    build/release/bin/braid simulate --seed "$first" --seeds 5000 &
  done
  for _ in 1 2; do
    wait -n || status=1
  done
  return "$status"
}

playground() {
  scripts/site.sh build/site && BRAID_FUZZ_INPUTS=200000 tests/apps/playground_test.py build/release/bin/braid build/site &&
    tests/apps/site_test.py build/release/bin/braid build/site &&
    tests/apps/games_test.py build/release/bin/braid build/site &&
    tests/apps/course_test.py build/release/bin/braid build/site &&
    node tests/apps/tasks_fuzz.js "$PWD/build/site" 200000 1 build/release/bin/plan_tasks
}

cudnn_plans() {
  local program=build/release/bin/test_cuda_plans
  [[ -x $program ]] || return 77
  "$program"
}

# The libraries as shared ones, which the tests see from outside, and of which linkers see namespace braid alone.
shared() {
  cmake --preset release -B build/shared -DBUILD_SHARED_LIBS=ON -DBRAID_CUDA=OFF -DBRAID_TESTS=ON &&
    cmake --build build/shared && ctest --test-dir build/shared --output-on-failure --parallel "$(nproc)" &&
    ! nm -C --dynamic --defined-only build/shared/lib/libbraid_*.so | grep -E '^[0-9a-f]+ [A-Zu] ' | grep -v braid::
}

part 'the release build' scripts/test.sh --build
part 'fuzzing' scripts/fuzz.sh --seconds 60
part 'every source alone' alone
part 'without oneDNN' scripts/test.sh --preset portable
part 'shared libraries' shared
part 'CUDA kernels' kernels
part 'cuDNN plans of all networks' cudnn_plans
part 'exports of all networks' scripts/check_exports.py
part 'published measurements' benchmarks/published.py --dry-run
part 'oldest CUDA' scripts/check_cuda12.sh build/cuda12
part 'AddressSanitizer and UBSan, thorough' scripts/test.sh --preset asan+ubsan --thorough
part 'ThreadSanitizer, thorough' scripts/test.sh --preset tsan --thorough
part 'the tests alongside busy loops' scripts/busy.sh
part 'the planner in a browser' playground
part 'a simulated cluster that fails' simulate
part '100 steps on ranks' tests/mpi/hundred_steps.sh mpirun build/release/bin/braid

export test=build/release/bin/test_scheduler
chunk=$(((graphs + 999) / 1000))  # graphs at a time
if ((chunk < 100)); then chunk=100; fi

# verify SEED GRAPHS: prints "ok", the number of plans and of graphs, or the failure and "failed".
verify() {
  local output plans
  if output=$(BRAID_RANDOM_SEED=$1 BRAID_RANDOM_DAGS=$2 "$test" --test-case='random steps are planned without faults*' 2>&1) &&
    plans=$(sed -n 's/^random plans: \([0-9]*\) plans.*/\1/p' <<<"$output") && [[ -n $plans ]]; then
    echo "ok $plans $2"
  else
    printf '%s\nfailed at seeds %d to %d\n' "$output" "$1" $(($1 + $2 - 1))
  fi
}
export -f verify

random_graphs() {
  local begin=$SECONDS seed left
  for ((seed = first; seed < first + graphs; seed += chunk)); do
    left=$((first + graphs - seed))
    echo "$seed $((left < chunk ? left : chunk))"
  done | xargs -P "$(nproc)" -L 1 bash -c 'verify "$@"' verify | {
    done_graphs=0 done_plans=0 failures=0 shown=0
    while IFS= read -r line; do
      if [[ $line =~ ^ok\ ([0-9]+)\ ([0-9]+)$ ]]; then
        ((done_plans += BASH_REMATCH[1], done_graphs += BASH_REMATCH[2], 1))
      else
        echo "$line"
        if [[ $line == failed\ at\ * ]]; then ((failures += 1)); fi
      fi
      if ((done_graphs * 100 >= (shown + 1) * graphs)); then
        shown=$((done_graphs * 100 / graphs))
        echo "$shown %: $done_graphs graphs, $done_plans plans verified, $((SECONDS - begin)) s"
      fi
    done
    echo "$done_graphs of $graphs graphs, $done_plans plans verified, $failures failures, $((SECONDS - begin)) s"
    ((failures == 0 && done_graphs == graphs))
  }
}
part 'random graphs' random_graphs

if ((${#parts[@]} == 0)); then
  echo "nightly.sh has no part '$only'" >&2
  exit 2
fi
printf '\n'
printf '%s\n' "${parts[@]}"
exit "$failed"
