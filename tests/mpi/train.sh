#!/usr/bin/env bash
# Trains a config on 1 and 4 ranks, which must save the same models and report the same losses, bit for bit, also after
# a signal to one rank and a resumption on another number of ranks. Then gives ranks what they cannot train together.
#
#   train.sh MPIRUN BRAID
set -euo pipefail
mpirun=$1 braid=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

config=$work/config.yaml
cat > "$config" <<'YAML'
name: run
seed: 3
parallel: {virtual_ranks: 4}
model: {name: resnet20}
data: {name: synthetic, size: 90, val_size: 50, image_size: 16, augment: {crop_padding: 2, flip: true}}
train: {epochs: 2, batch_size: 16, log_interval: 1}
eval: {batch_size: 16}
YAML

# on RANKS ARGUMENT…
on() {
  local ranks=$1
  shift
  if ((ranks == 1)); then
    "$braid" "$@"
  else
    "$mpirun" -n "$ranks" --oversubscribe "$braid" "$@"
  fi
}

fail() {
  printf '%s\n' "$@"
  exit 1
}

# What a run reports, without times.
losses() { grep -o '"event":"[a-z]*"\|"\(loss\|accuracy\|val_loss\|val_accuracy\|val_top5\|lr\|step\)":[^,}]*' "$1/metrics.jsonl"; }

# same_runs FOLDER OTHER
same_runs() {
  cmp "$1/model.safetensors" "$2/model.safetensors" || fail "$2 has another model"
  diff <(losses "$1") <(losses "$2") || fail "$2 reports other losses"
}

# on_any_ranks NAME STOPPED CONTINUED ARGUMENT… trains on 1 and 4 ranks, and on STOPPED ranks up to step 4, then on CONTINUED.
on_any_ranks() {
  local name=$1 stopped=$2 continued=$3
  shift 3
  on 1 train "$config" "$@" --set output.root="$work/${name}1" > /dev/null
  on 4 train "$config" "$@" --set output.root="$work/${name}4" > /dev/null
  same_runs "$work/${name}1/run-1" "$work/${name}4/run-1"
  on "$stopped" train "$config" "$@" --set checkpoint.every_n_steps=2 --set checkpoint.keep_last=12 --set output.root="$work/$name" > /dev/null
  find "$work/$name/run-1/checkpoints" -name 'step-*' ! -name 'step-4.*' -delete
  on "$continued" train --resume "$work/$name/run-1" > /dev/null
  cmp "$work/${name}1/run-1/model.safetensors" "$work/$name/run-1/model.safetensors"
}

for ranks in 1 4; do
  on $ranks train "$config" --set output.root="$work/$ranks" > "$work/$ranks.txt"
  [[ $(grep -c '^epoch ./2  train loss ' "$work/$ranks.txt") == 2 ]] || fail "expected two lines about epochs:" "$(< "$work/$ranks.txt")"
  same_runs "$work/1/run-1" "$work/$ranks/run-1"
done

# Ranks that train by themselves compare their models after every epoch. The last batch is not divided.
alone=(--set parallel.virtual_ranks=auto --set parallel.average_every=4 --set train.ema_decay=0.9)
on 2 train "$config" "${alone[@]}" --set checkpoint.every_n_steps=1 --set checkpoint.keep_last=12 --set output.root="$work/alone" > /dev/null
find "$work/alone/run-1/checkpoints" -name 'step-*' ! -name 'step-9.*' -delete  # in the middle of a period
on 2 train --resume "$work/alone/run-1" > "$work/alone.txt"
grep -q '^epoch 2/2  train loss ' "$work/alone.txt" || fail 'expected the rest of a run:' "$(< "$work/alone.txt")"

# A centre pulls them: ranks compare it, and a run continues with it in the middle of a period, also on one rank.
elastic=(--set parallel.virtual_ranks=auto --set parallel.average_every=4 --set parallel.elastic_beta=0.9)
on 2 train "$config" "${elastic[@]}" --set checkpoint.every_n_steps=1 --set checkpoint.keep_last=12 --set output.root="$work/elastic" > /dev/null
for ranks in 2 1; do
  find "$work/elastic/run-1/checkpoints" -name 'step-*' ! -name 'step-9.*' -delete
  on $ranks train --resume "$work/elastic/run-1" > "$work/elastic.txt"
  grep -q '^epoch 2/2  train loss ' "$work/elastic.txt" || fail 'expected the rest of a run:' "$(< "$work/elastic.txt")"
done

many=(--set model.name=lenet5 --set data.size=192 --set train.epochs=40 --set eval.every_n_epochs=40)  # for times to compare
on 1 train "$config" "${many[@]}" --set output.root="$work/many" > /dev/null
on 2 train "$config" "${many[@]}" --set parallel.steps_per_execution=3 --set output.root="$work/measured" > "$work/measured.txt"
grep -q '^\(3 steps as one\|single steps\) kept, .* ms/step (\(3 steps as one\|single steps\) [-+]' "$work/measured.txt" || fail 'expected the times of turns:' "$(< "$work/measured.txt")"
same_runs "$work/many/run-1" "$work/measured/run-1"

# Layers divided along two dimensions, with parts of their parameters on some ranks.
cat > "$work/mesh.yaml" <<'YAML'
layers:
  conv1: {h: 2, w: 2}
  layer1.0.conv1: {n: 2, c: 2}
  layer2.1.conv1: {n: 4}
  layer3.0.conv1: {c: 4}
  layer3.2.conv2: {c: 2}
YAML
on_any_ranks mesh 2 4 --set "parallel.strategy=$work/mesh.yaml" --set train.ema_decay=0.9

# Stages of a pipeline, of other sizes on another number of ranks. The last batch of an epoch is not divided into shards.
on_any_ranks stages 3 2 --set parallel.strategy=pipeline --set train.ema_decay=0.9 --set train.clip_norm=1

# A signal to one rank ends all of them after the same step.
long=(--set train.epochs=12 --set checkpoint.every_n_steps=5)
on 1 train "$config" "${long[@]}" --set output.root="$work/whole" > /dev/null
for how in zero=parameters strategy=pipeline; do
  # On a busy machine the signal may come after the end: one of five attempts must not.
  status=0
  for _ in {1..5}; do
    rm -rf "$work/cut"
    on 4 train "$config" "${long[@]}" --set parallel.$how --set output.root="$work/cut" > "$work/cut.txt" &
    until compgen -G "$work/cut/run-1/checkpoints/step-*.safetensors" > /dev/null; do
      kill -0 $! 2> /dev/null || continue 2
      sleep 0.05
    done
    pkill -TERM -n -f "^$braid train .*output.root=$work/cut" || continue
    status=0
    wait $! || status=$?
    if grep -q 'interrupted after step' "$work/cut.txt"; then break; fi
  done
  ((status != 0)) || fail 'expected an exit status for the signal'
  grep -q 'interrupted after step' "$work/cut.txt" || fail 'expected a line about the interruption:' "$(< "$work/cut.txt")"
  on 2 train --resume "$work/cut/run-1" > "$work/resumed.txt"
  cmp "$work/whole/run-1/model.safetensors" "$work/cut/run-1/model.safetensors"
done

# refused MESSAGE COMMAND…
refused() {
  local message=$1 output
  shift
  if output=$("$@" 2>&1); then fail "expected an error: $message"; fi
  [[ $output == *"$message"* ]] || fail "expected: $message" "got: $output"
}

refused "expected as many ranks as mesh.data says, 3, or 0 for all, got 1: start the program by 'mpirun -n 3'" \
  on 1 train "$config" --set parallel.mesh.data=3
# The link between two ranks, which a training then plans with.
"$mpirun" -n 2 --oversubscribe "$braid" profile --links -o "$work/link.json" > "$work/link.txt"
[[ $(grep -c '^all_reduce of ' "$work/link.txt") == 12 ]] || fail "expected twelve sizes:" "$(< "$work/link.txt")"
grep -q '"link": {"latency_microseconds":' "$work/link.json" || fail "expected a link:" "$(< "$work/link.json")"
on 2 train "$config" --profile "$work/link.json" --set output.root="$work/link" > /dev/null
cmp "$work/1/run-1/model.safetensors" "$work/link/run-1/model.safetensors"
mkdir "$work/other"
sed 's/"latency_microseconds":/&1/' "$work/link.json" > "$work/other/link.json"
refused "link.json of rank 1 has '\"link\": {\"latency_microseconds\":1" \
  "$mpirun" -n 1 -wdir "$work" "$braid" train "$config" --profile link.json : -n 1 -wdir "$work/other" "$braid" train "$config" --profile link.json
# Weights of other contents: before anything is saved.
for rank in 0 1; do mkdir "$work/rank$rank"; done
cp "$work/1/run-1/model.safetensors" "$work/rank0"
cp "$work/whole/run-1/model.safetensors" "$work/rank1"
weights=(train "$config" --set model.weights=model.safetensors)
refused 'the model after step 0 of rank 1 is not that of rank 0' \
  "$mpirun" -n 1 -wdir "$work/rank0" "$braid" "${weights[@]}" : -n 1 -wdir "$work/rank1" "$braid" "${weights[@]}"
[[ ! -e $work/rank0/runs/run-1 ]] || fail 'expected no run of ranks that never agreed'
refused "the training of rank 1 has 'seed: 4' where that of rank 0 has 'seed: 3'" \
  "$mpirun" -n 1 "$braid" train "$config" : -n 1 "$braid" train "$config" --set seed=4
