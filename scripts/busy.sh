#!/usr/bin/env bash
# Runs the tests of the release build ten times, or RUNS times, alongside a busy loop per core. A test that fails only here
# depends on time. The exit status is 0 only if no run failed.
#
#   scripts/busy.sh [RUNS [arguments of test.sh]]
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

runs=${1:-10} failed=0 loops=()
trap 'kill "${loops[@]}"' EXIT
for ((core = 0; core < $(nproc); ++core)); do
  while :; do :; done &
  loops+=($!)
done
for ((run = 1; run <= runs; ++run)); do
  begin=$SECONDS status=0
  scripts/test.sh "${@:2}" || status=$?
  printf 'busy: run %d of %d took %d s, exit status %d\n' "$run" "$runs" $((SECONDS - begin)) "$status"
  ((status == 0 || (failed += 1)))
done
echo "busy: $failed of $runs runs failed"
((failed == 0))
