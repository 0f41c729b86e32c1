#!/usr/bin/env bash
# Kills ranks of a supervised training, which must continue by itself and end with the model of an uninterrupted one,
# bit for bit. No process may remain, whichever is killed. How many ranks start again, the simulated cluster checks.
#
#   launch.sh BRAID [KILLS]
set -euo pipefail
braid=$1 kills=${2:-1}
work=$(mktemp -d)
trap 'pkill -KILL -f "output.root=$work|--resume $work" || true; rm -rf "$work"' EXIT
RANDOM=1

config=$work/config.yaml
cat > "$config" <<YAML
name: run
seed: 3
parallel: {virtual_ranks: 4}
model: {name: lenet5}
data: {name: synthetic, size: 256, val_size: 32, image_size: 28, channels: 1}
train: {epochs: $((60 + 15 * kills)), batch_size: 16, log_interval: 1}
checkpoint: {every_n_steps: 20}
YAML

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# Processes of the training below this folder.
processes() { pgrep -f "(output.root=|--resume )$1" || true; }
ranks() { pgrep -f "^$braid train .*(output.root=|--resume )$1" || true; }

# launch FOLDER ARGUMENT…: in the background, as $launched
launch() {
  local folder=$1
  shift
  "$braid" launch --oversubscribe "$@" train "$config" --set output.root="$folder" > "$folder.txt" 2>&1 &
  launched=$!
}

# until_saved FOLDER STEP: until there is a checkpoint after this step
until_saved() {
  local newest
  while true; do
    newest=$(find "$1" -name 'step-*.safetensors' 2>/dev/null | sed 's/.*step-0*\([0-9]*\)\..*/\1/' | sort -n | tail -n 1) || true
    [[ ${newest:-0} -gt $2 ]] && break
    kill -0 "$launched" 2>/dev/null || fail 'the training has ended early:' "$(< "$1.txt")"
    sleep 0.02
  done
  echo "$newest"
}

# until_line FOLDER COUNT TEXT: until this many lines have the text; two minutes end a hang only
until_line() {
  local tries
  for ((tries = 0; tries < 2400; ++tries)); do
    [[ $(grep -c -- "$3" "$1.txt") -ge $2 ]] && return
    sleep 0.05
  done
  fail "expected '$3'" "$(< "$1.txt")"
}

# nothing_left FOLDER: likewise
nothing_left() {
  local tries
  for ((tries = 0; tries < 2400; ++tries)); do
    [[ -z $(processes "$1") ]] && return
    sleep 0.05
  done
  fail 'processes have stayed behind:' "$(pgrep -af "$1")"
}

"$braid" train "$config" --set output.root="$work/whole" > /dev/null

# A random rank, at random moments: so many steps after the last one that is known to be saved, long before the end.
launch "$work/killed" -n 4 --restarts "$kills"
newest=0 seen=0
for ((kill = 1; kill <= kills; ++kill)); do
  newest=$(until_saved "$work/killed" $((newest + RANDOM % 100)))
  until [[ $(ranks "$work/killed" | wc -l) == 4 ]]; do
    kill -0 "$launched" 2>/dev/null || fail "expected $kills kills before the training ends:" "$(< "$work/killed.txt")"
    sleep 0.02
  done
  victim=$(ranks "$work/killed" | shuf -n 1 --random-source=<(yes $kill))
  kill -KILL "$victim"
  until_line "$work/killed" "$kill" 'braid launch: '
  # Another rank or mpirun reports it, whichever notices first. No pipe: tail would fail if grep ended first.
  grep -qE 'rank [0-3] has died|exited on signal 9' <(tail -n +$((seen + 1)) "$work/killed.txt") ||
    fail 'expected the rank that was killed:' "$(< "$work/killed.txt")"
  seen=$(wc -l < "$work/killed.txt")
done
wait "$launched" || fail 'expected the training to go on:' "$(< "$work/killed.txt")"
cmp "$work/whole/run-1/model.safetensors" "$work/killed/run-1/model.safetensors"
nothing_left "$work/killed"

# The supervisor is asked to stop, and then one is killed.
launch "$work/stopped" -n 2
until_saved "$work/stopped" 0 > /dev/null
kill -TERM "$launched"
status=0
wait "$launched" || status=$?
[[ $status == 143 ]] || fail "expected status 143, got $status" "$(< "$work/stopped.txt")"
grep -q 'interrupted after step' "$work/stopped.txt" || fail 'expected a saved state:' "$(< "$work/stopped.txt")"
nothing_left "$work/stopped"

launch "$work/orphans" -n 2
until_saved "$work/orphans" 0 > /dev/null
kill -KILL "$launched"
wait "$launched" 2>/dev/null || true
nothing_left "$work/orphans"

# refused MESSAGE ARGUMENT…
refused() {
  local message=$1 output
  shift
  if output=$("$braid" launch "$@" 2>&1); then fail "expected an error: $message"; fi
  [[ $output == *"$message"* ]] || fail "expected: $message" "got: $output"
}

refused "expected train and its arguments, got 'eval'" -n 2 eval run
refused 'expected at most 2, the number of ranks' -n 2 --min-ranks 3 train "$config"
refused 'there.yaml' -n 2 train "$work/not/there.yaml"

# Ranks without the variables that tell which they are do not train as one each.
if output=$(mpirun -n 2 --oversubscribe env -i PATH="$PATH" "$braid" train "$config" --set output.root="$work/bare" 2>&1); then
  fail 'expected an error' "$output"
fi
[[ $output == *'mpirun started this process, but OMPI_COMM_WORLD_RANK'* ]] || fail "$output"
[[ ! -e $work/bare ]] || fail 'expected no run'
