#!/usr/bin/env bash
# Trains networks for 100 steps on several ranks, streams and buckets, which must save the same weights, statistics and
# momentum and report the same losses as one rank, bit for bit. Takes minutes.
#
#   hundred_steps.sh MPIRUN BRAID
set -euo pipefail
mpirun=$1 braid=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run FOLDER RANKS ARGUMENT…
run() {
  local folder=$work/$1 ranks=$2
  shift 2
  local command=("$braid" train "$config" --set output.root="$folder" "$@")
  ((ranks == 1)) || command=("$mpirun" -n "$ranks" --oversubscribe "${command[@]}")
  "${command[@]}" > "$folder.txt" 2>&1 || { cat "$folder.txt"; exit 1; }
  grep -o '"loss":[^,}]*' "$folder/run-1/metrics.jsonl" > "$folder.losses"
  # The tensors, after the header, which contains times.
  local saved=("$folder"/run-1/checkpoints/step-*100.safetensors)
  tail -c "+$(($(od -An -t u8 -N 8 "${saved[0]}") + 9))" "${saved[0]}" > "$folder.state"
}

config=$work/config.yaml
for model in resnet20 googlenet; do
  cat > "$config" <<YAML
name: run
seed: 3
model: {name: $model}
data: {name: synthetic, size: 1200, val_size: 12, image_size: 16, augment: {crop_padding: 2, flip: true}}
train: {epochs: 1, batch_size: 12, log_interval: 1}
eval: {batch_size: 12}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
YAML
  for shards in 4 12; do
    run "$model-$shards" 1 --set parallel.virtual_ranks=$shards
    others=('2 1 auto' '2 4 1' '4 2 auto')
    ((shards == 4)) || others=('3 2 auto')
    for other in "${others[@]}"; do
      read -r ranks streams bucket <<< "$other"
      echo "$model, $shards shards, $ranks ranks, $streams streams, bucket $bucket"
      run other "$ranks" --set parallel.virtual_ranks=$shards --set streams="$streams" --set parallel.bucket="$bucket"
      cmp "$work/$model-$shards.state" "$work/other.state"
      cmp "$work/$model-$shards.losses" "$work/other.losses"
      rm -r "$work"/other*
    done
  done
done
