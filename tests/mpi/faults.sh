#!/usr/bin/env bash
# Kills and stops ranks of a training. All ranks must end, with an error that names the lost rank and the step.
#
#   faults.sh MPIRUN BRAID
set -euo pipefail
mpirun=$1 braid=$2
work=$(mktemp -d)
trap 'pkill -KILL -f "output.root=$work" || true; rm -rf "$work"' EXIT

config=$work/config.yaml
cat > "$config" <<YAML
name: run
model: {name: lenet5}
data: {name: synthetic, size: 256, val_size: 32, image_size: 28, channels: 1}
train: {epochs: 100000, batch_size: 12, log_interval: 1}
YAML

fail() {
  printf '%s\n' "$@"
  exit 1
}

# rank_of FOLDER RANK: its process
rank_of() {
  local process
  for process in $(pgrep -f "^$braid train .*output.root=$1"); do
    if grep -qzx "OMPI_COMM_WORLD_RANK=$2" "/proc/$process/environ"; then echo "$process"; fi
  done
}

# Seconds after which ranks are lost. Where that is not what ends the training, they are many.
quick=2 never=600

# under_way FOLDER SECONDS: a training in the background, after some steps. On a busy machine ranks may be so late
# that they count as lost before: then they get twice the seconds, which `limit` says. Two minutes end a hang only.
under_way() {
  local folder=$1
  for ((limit = $2; limit <= 16 * $2; limit *= 2)); do
    rm -rf "$folder"
    timeout 120 "$mpirun" -n 3 --oversubscribe "$braid" train "$config" --set output.root="$folder" --set parallel.timeout="$limit" > "$folder-$limit.txt" 2>&1 &
    ln -sf "$folder-$limit.txt" "$folder.txt"
    until grep -qs '"step":5' "$folder/run-1/metrics.jsonl"; do
      kill -0 $! 2> /dev/null || continue 2
      sleep 0.05
    done
    return
  done
  fail 'the run has ended early:' "$(cat "$folder"-*.txt)"
}

# must_end FOLDER MESSAGE: LIMIT in it stands for the seconds.
must_end() {
  local status=0 message=${2/LIMIT/$limit}
  wait $! || status=$?
  ((status != 124)) || fail 'expected all ranks to end:' "$(< "$1.txt")"
  ((status != 0)) || fail 'expected an exit status that is not 0'
  grep -Eq "rank $message(; it (last called .*|has made no call))?; [0-9]+ steps had finished" "$1.txt" ||
    fail "expected: rank $message; … steps had finished" "$(< "$1.txt")"
  [[ -z $(pgrep -f "output.root=$1") ]] || fail 'processes have stayed behind:' "$(pgrep -af "$1")"
}

signal() { kill "-$3" "$(rank_of "$1" "$2")"; }

# lose RANK SIGNAL MESSAGE SECONDS
lose() {
  local folder=$work/$1-$2
  under_way "$folder" "$4"
  signal "$folder" "$1" "$2"
  must_end "$folder" "$1 $3"
}

for rank in 0 2; do
  lose $rank KILL 'has died' $never
  lose $rank STOP 'has given no sign of life for LIMIT s' $quick
done
