#!/usr/bin/env bash
# Everything that needs a machine with a GPU: tests, sanitizers, the comparison with PyTorch, and profiles to plan with.
#
#   scripts/gpu_check.sh [--only tests|sanitize|bench|profile] [--out DIR]
#
# Runs from a bundle (scripts/bundle.sh) or from the repository, which it builds first. Each part has its own time limit,
# and all of them end within nine minutes of the build. The other parts still run after one has failed.
# Leaves a few small files in DIR (default: gpu_check). Exits with 0 if all went well, 1 if not, 77 without a GPU.
# shellcheck disable=SC2317  # functions are called through part
set -uo pipefail

only=
out=gpu_check
while (($# > 0)); do
  case $1 in
    --only) only=${2-unknown} ;;
    --out) out=${2-} ;;
    *) only=unknown ;;
  esac
  if [[ ! $only =~ ^(|tests|sanitize|bench|profile)$ || -z $out ]]; then
    echo 'usage: scripts/gpu_check.sh [--only tests|sanitize|bench|profile] [--out DIR]' >&2
    exit 2
  fi
  shift 2
done

if ! nvidia-smi -L 2>/dev/null | grep -q '^GPU 0'; then
  echo 'gpu_check: skipped (nvidia-smi finds no GPU on this machine)'
  exit 77
fi

mkdir -p "$out" || exit
out=$(cd "$out" && pwd)
log=$out/log.txt
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
if [[ -x run ]]; then
  bin=$PWD/bin
else
  bin=$PWD/build/cuda/bin
  if ! { cmake --preset cuda -DBRAID_TESTS=ON && cmake --build --preset cuda --target bin/braid test_gpu; } >"$log" 2>&1; then
    tail -n 20 "$log"
    echo "gpu_check: the build failed; $log has all of its output"
    exit 1
  fi
fi
if ! "$bin/braid" devices 2>&1 | tee "$log" | grep -q '^cuda:0: '; then
  cat "$log"
  echo 'gpu_check: there is a GPU, but braid cannot use it, see above'
  exit 1
fi

summary=()
failed=0
# part NAME COMMAND…: runs a function, unless --only selects another part, and records its result.
part() {
  local name=$1 begin=$SECONDS result=ok
  shift
  [[ -z $only || $only == "$name" ]] || return 0
  printf '\n==== %s\n' "$name"
  "$@"
  case $? in
    0) ;;
    77) result=skipped ;;
    *) result=FAILED failed=1 ;;
  esac
  summary+=("$(printf '%-8s %-10s %4d s' "$result" "$name" $((SECONDS - begin)))")
}

# limited SECONDS COMMAND…: runs a command with a time limit; its output also goes to the log. Reports a timeout.
limited() {
  local limit=$1 status
  shift
  printf '$ %s\n' "$*" >>"$log"
  timeout --kill-after=5 "$limit" "$@" 2>&1 | tee -a "$log"
  status=${PIPESTATUS[0]}
  if ((status == 124 || status == 137)); then echo "stopped after $limit s: $*" | tee -a "$log"; fi
  return "$status"
}

tests() { limited 120 "$bin/test_gpu"; }

# A few steps of a small network on four streams, each launched kernel by kernel once and then as a graph.
sanitize() {
  local sanitizer status=0
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [[ -z $sanitizer ]]; then
    echo 'sanitize: skipped (compute-sanitizer is not installed)'
    return 77
  fi
  local options=(--target-processes all --error-exitcode 9 --print-limit 20)
  local training=("$bin/braid" bench benchmarks/configs/resnet20.yaml --set device=cuda --set streams=4
    --set train.batch_size=8 --steps 3)
  limited 60 "$sanitizer" --tool memcheck --track-stream-ordered-races all "${options[@]}" "${training[@]}" || status=1
  limited 60 "$sanitizer" --tool racecheck "${options[@]}" "${training[@]}" || status=1
  return "$status"
}

bench() {
  if ! python3 -c 'import torch, torchvision' 2>/dev/null; then
    echo 'bench: skipped (python3 has no torch and torchvision)'
    return 77
  fi
  local limit=190
  if [[ $only == bench ]]; then limit=520; fi
  limited "$limit" python3 benchmarks/compare_pytorch.py --device cuda --braid "$bin/braid" --budget $((limit - 40)) \
    --json "$out/comparison.json" >"$out/comparison.md"
  local status=$?
  cat "$out/comparison.md"
  return "$status"
}

profile() {
  local name batch precision status=0 begin=$SECONDS
  "$bin/braid" devices --json cuda >"$out/device.json" || status=1
  for batch in 8 32; do
    for precision in bf16 tf32; do
      for name in googlenet inception_v3 resnet50 pathnet_conv; do
        if ((SECONDS - begin > 75)); then
          echo "left out for lack of time: $name, batch $batch, $precision"
          continue
        fi
        limited 25 "$bin/braid" profile "benchmarks/configs/cuda/$name.yaml" -o "$out/profile.json" --device cuda \
          --batch-size "$batch" --pairs 20 --set precision="$precision" --set benchmark=true || status=1
      done
    done
  done
  return "$status"
}

part tests tests
part profile profile
part bench bench
part sanitize sanitize

{
  printf '\n==== summary, %d s\n' "$SECONDS"
  printf '%s\n' "${summary[@]}"
} | tee -a "$log"
exit "$failed"
