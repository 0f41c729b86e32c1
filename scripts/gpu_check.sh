#!/usr/bin/env bash
# Everything that needs a machine with a GPU, in the order of what a first run must tell: a smoke test, all tests, the
# comparison with PyTorch, profiles to plan with, and sanitizers.
#
#   scripts/gpu_check.sh [--only PART[,PART…]] [--out DIR] [--seconds N] [--resume] [--rehearse]
#
# Parts are smoke, tests, bench, profile and sanitize. --resume leaves out what an earlier call with the same DIR has done.
# Runs from a bundle (scripts/bundle.sh) or from the repository, which it builds first. Ends N seconds (default: 560) after
# the build: parts that end early leave their time to later ones, and what does not fit is left out and named. A command that
# fails or hangs stops neither its part nor the others. Leaves at most eight small files in DIR (default: gpu_check).
# --rehearse runs all of it on the CPU, which tests this script and a bundle.
# Exits with 0 if all went well, 1 if not, 77 without a GPU.
# shellcheck disable=SC2317  # functions are called through part
set -uo pipefail

usage() {
  echo 'usage: scripts/gpu_check.sh [--only PART[,PART…]] [--out DIR] [--seconds N] [--resume] [--rehearse]' >&2
  echo 'parts: smoke, tests, bench, profile, sanitize' >&2
  exit 2
}
only='' out=gpu_check seconds=560 device=cuda resume=false
while (($# > 0)); do
  case $1 in
    --only) only=${2-unknown} && shift ;;
    --out) out=${2-} && shift ;;
    --seconds) seconds=${2-} && shift ;;
    --resume) resume=true ;;
    --rehearse) device=cpu ;;
    *) usage ;;
  esac
  shift || usage
done
parts='(smoke|tests|bench|profile|sanitize)'
[[ $only =~ ^($parts(,$parts)*)?$ && -n $out && $seconds =~ ^[1-9][0-9]*$ ]] || usage

# bounded SECONDS COMMAND…: ends a command that takes longer, even one that ignores the signal to end.
bounded() { timeout --kill-after=2 "$@"; }

if [[ $device == cuda ]] && ! bounded 20 nvidia-smi -L 2>/dev/null | grep -q '^GPU 0'; then
  echo 'gpu_check: skipped (nvidia-smi finds no GPU on this machine)'
  exit 77
fi

mkdir -p "$out" || exit
out=$(cd "$out" && pwd)
log=$out/log.txt
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
bin=$PWD/bin data=$PWD/data
if [[ ! -x run ]]; then
  bin=$PWD/build/cuda/bin data=/usr/share/datasets/fashion-mnist
  if ! { cmake --preset cuda -DBRAID_TESTS=ON && cmake --build --preset cuda --target bin/braid test_gpu; } >"$log" 2>&1; then
    tail -n 20 "$log"
    echo "gpu_check: the build failed; $log has all of its output"
    exit 1
  fi
fi
begin=$SECONDS
export BRAID_TEST_DEVICE=$device

# What the results depend on. The clocks are also recorded every few seconds, because they fall when the GPU is hot.
describe_machine() {
  uname -a
  nproc
  bounded 20 "$bin/braid" --version
  bounded 60 "$bin/braid" devices || bounded 60 "$bin/braid" devices  # the first start of a driver may take that long
  # Which of several installed libraries it loads.
  LD_DEBUG=libs bounded 20 "$bin/braid" devices 2>&1 | grep -oE 'init: .*/lib(cuda|cudnn|cublas|cupti)[^ ]*' | sort -u
  python3 - <<'PYTHON'
import importlib.metadata, sys
print("python", sys.version)
for name, version in sorted({(d.metadata["Name"] or "", d.version) for d in importlib.metadata.distributions()}):
    if name.startswith(("nvidia-", "torch", "triton")):
        print(name, version)
PYTHON
  bounded 20 nvidia-smi -q
} 2>&1
describe_machine >"$out/machine.txt"
if [[ $device == cuda ]]; then
  if ! grep -q '^cuda:0: ' "$out/machine.txt"; then
    grep '^cuda' "$out/machine.txt"
    echo "gpu_check: there is a GPU, but braid cannot use it; $out/machine.txt has the details"
    exit 1
  fi
  fields=timestamp,pstate,clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu,memory.used
  timeout $((seconds + 10)) nvidia-smi --query-gpu=$fields --format=csv --loop=2 >"$out/clocks.csv" 2>&1 &
  recorder=$!
  trap 'kill "$recorder" 2>/dev/null; wait "$recorder"' EXIT
fi
if ! $resume; then rm -f "$log" "$out/cases.txt"; fi
touch "$log" "$out/cases.txt"

# share PERCENT: a part of all the time, at least a second.
share() { echo $((seconds * $1 < 100 ? 1 : seconds * $1 / 100)); }
# The seconds until the running part must end.
left() { echo $((part_end - SECONDS)); }

summary=()
failed=0
# part NAME PERCENT COMMAND…: runs a function, unless --only selects another part, and records its result. It must end when
# that share of all the time has passed.
part() {
  local name=$1 start=$SECONDS result=ok
  [[ -z $only || ,$only, == *,$name,* ]] || return 0
  part_end=$((begin + $(share "$([[ $only == "$name" ]] && echo 100 || echo "$2")")))
  shift 2
  printf '\n==== %s\n' "$name"
  "$@"
  case $? in
    0) ;;
    77) result=skipped ;;
    *) result=FAILED failed=1 ;;
  esac
  summary+=("$(printf '%-8s %-10s %4d s' "$result" "$name" $((SECONDS - start)))")
}

# check SECONDS NAME COMMAND…: runs a command with a time limit and prints its result, its duration and NAME. Its output
# goes to the log; the last lines are shown if it fails. Fails without a try if no time is left. What --resume finds done is
# not done again.
check() {
  local limit=$1 name=$2 start=${EPOCHREALTIME//[.,]/} size status=0 result=ok
  shift 2
  if $resume && grep -qxF -- "$name" <(sed -nE 's/^ok +[0-9]+ ms //p' "$out/cases.txt"); then
    echo "done before         $name"
    return
  fi
  (($(left) >= limit)) || limit=$(left)
  if ((limit < 1)); then
    printf 'left out            %s\n' "$name" | tee -a "$out/cases.txt"
    return 1
  fi
  printf '\n$ %s\n' "$*" >>"$log"
  size=$(stat -c %s "$log")
  bounded "$limit" "$@" >>"$log" 2>&1 </dev/null || status=$?
  if ((status == 124 || status == 137)); then
    result=STOPPED
  elif ((status != 0)); then
    result=FAILED
  fi
  printf '%-8s %8d ms %s\n' "$result" $(((${EPOCHREALTIME//[.,]/} - start) / 1000)) "$name" | tee -a "$out/cases.txt"
  ((status == 0)) || tail -c +$((size + 1)) "$log" | tail -n 25 | sed 's/^/    /'
  return "$status"
}

# cases FILTER: the test cases of a doctest program, each in a separate process: a process loses the GPU once a kernel
# has failed. A failed case that covers all ops is run again op by op.
cases() {
  local names=() name filter op status=0
  mapfile -t names < <(bounded "$(share 10)" "$bin/test_gpu" -ltc "$1" 2>>"$log" | sed -n '/^====/,/^====/{/^====/!p}')
  if ((${#names[@]} == 0)); then
    echo 'test_gpu lists no cases'
    return 1
  fi
  for name in "${names[@]}"; do
    filter=-tc=${name//,/?} # a comma would separate two filters
    check "$(share 12)" "$name" "$bin/test_gpu" "$filter" && continue
    status=1
    [[ $name == 'every op '* ]] || continue
    while read -r op; do
      check "$(share 3)" "  $op" "$bin/test_gpu" "$filter" "-sc=$op"
    done < <(bounded "$(share 3)" "$bin/test_gpu" --list-ops)
  done
  return "$status"
}

smoke() {
  local status=0
  cases -ts=smoke || status=1
  [[ $device == cpu ]] || check "$(share 5)" 'a tiny network trains as on the CPU' "$bin/braid" devices --check || status=1
  return "$status"
}

# All other tests, and one epoch of the three networks that the demo trains at once, all of which must learn.
tests() {
  local status=0 runs learned images=(--set data.root="$data") wanted=3
  cases -tse=smoke || status=1
  if [[ ! -e $data ]]; then
    echo 'the data set of the demo is not here: training on synthetic images'
    images=(--set data.name=synthetic --set data.size=8192 --set data.image_size=28 --set data.channels=1) wanted=0
  fi
  if [[ $device == cpu ]]; then images+=(--set train.max_steps=4) wanted=0; fi
  runs=$(mktemp -d)
  check "$(share 15)" 'one epoch of three networks at once' "$bin/braid" train configs/concurrent.yaml --set device="$device" \
    --set output.root="$runs" "${images[@]}" || status=1
  if [[ -z $(ls "$runs") ]]; then wanted=0; fi  # it was done before, or has failed already
  learned=$(grep -rhoE '"val_accuracy":[0-9.]+' "$runs" | awk -F : '$2 >= 0.75' | wc -l)
  rm -r "$runs"
  if ((learned < wanted)); then
    echo "only $learned of $wanted networks have a test accuracy of 75 %"
    status=1
  fi
  return "$status"
}

# In the order of importance. A profile has the times of nodes before it measures pairs.
profile() {
  local step name batch precision limit status=0 precisions=(bf16 tf32)
  local steps=(cuda/resnet50:32 cuda/googlenet:8 cuda/pathnet_conv:8 cuda/inception_v3:8 cuda/googlenet:32 cuda/inception_v3:32
    cuda/pathnet_conv:32 cuda/resnet50:8)
  if [[ $device == cpu ]]; then precisions=(bf16) steps=(resnet20:32 resnet20:8); fi
  limit=$(share 5)
  bounded 20 "$bin/braid" devices "$device" --json >"$out/device.json" || status=1
  for precision in "${precisions[@]}"; do
    for step in "${steps[@]}"; do
      name=${step%:*} batch=${step#*:}
      if (($(left) < limit)); then
        echo "left out for lack of time: ${name##*/}, batch $batch, $precision" | tee -a "$out/cases.txt"
        continue
      fi
      check "$limit" "${name##*/}, batch $batch, $precision" "$bin/braid" profile "benchmarks/configs/$name.yaml" \
        -o "$out/profile.json" --device "$device" --batch-size "$batch" --pairs 20 --set precision="$precision" \
        --set autotune=true || status=1
    done
  done
  return "$status"
}

bench() {
  local status=0 options=(--device cuda)
  if ! python3 -c 'import importlib.util as u; exit(not (u.find_spec("torch") and u.find_spec("torchvision")))'; then
    echo 'bench: skipped (python3 has no torch and torchvision)'
    return 77
  fi
  if [[ $device == cpu ]]; then options=(--rehearse); fi
  check "$(left)" 'comparison with PyTorch' python3 benchmarks/compare_pytorch.py "${options[@]}" --braid "$bin/braid" \
    --budget $(($(left) * 9 / 10)) --limit "$(share 20)" --json "$out/comparison.json" --markdown "$out/comparison.md" || status=1
  [[ ! -e $out/comparison.md ]] || cat "$out/comparison.md"
  return "$status"
}

# Our own kernels only: those of the libraries are not ours to mend, and instrumenting them takes minutes.
sanitize() {
  local sanitizer status=0 memcheck racecheck
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [[ -z $sanitizer || $device == cpu ]]; then
    echo 'sanitize: skipped (compute-sanitizer is not installed, or there is no GPU)'
    return 77
  fi
  # Mangled names of functions in the namespace braid contain its name behind its length.
  local options=(--kernel-name kns=5braid --target-processes all --error-exitcode 9 --print-limit 20)
  local ops=("$bin/test_gpu" '-tc=every op agrees with plain loops in f32') training=("$bin/braid" bench
    benchmarks/configs/resnet20.yaml --set device=cuda --set streams=4 --set train.batch_size=8 --steps 3)
  memcheck=("$sanitizer" --tool memcheck "${options[@]}")
  racecheck=("$sanitizer" --tool racecheck "${options[@]}")
  check $(($(left) / 2)) 'memcheck, every op' "${memcheck[@]}" "${ops[@]}" || status=1
  check $(($(left) / 2)) 'memcheck, a step on four streams' "${memcheck[@]}" --track-stream-ordered-races all "${training[@]}" || status=1
  # Takes the longest, and cannot handle a step of several streams (13.0: "failed to handle a hardware exception").
  check "$(left)" 'racecheck, every op' "${racecheck[@]}" "${ops[@]}" || status=1
  return "$status"
}

part smoke 15 smoke
part tests 45 tests
part bench 76 bench
part profile 88 profile
part sanitize 100 sanitize

{
  printf '\n==== summary, %d s\n' $((SECONDS - begin))
  printf '%s\n' "${summary[@]}"
} | tee -a "$log"
exit "$failed"
