#!/usr/bin/env bash
# Trains on ranks of two hosts, made of network namespaces with a cable in between: the same model as on one host, bit for
# bit, with parameters in pieces; a signal reaches the ranks on both; if the cable is cut, the supervisor ends and says so.
#
#   two_hosts.sh BRAID
set -euo pipefail
braid=$1
if [[ -z ${BRAID_FIRST_HOST-} ]]; then
  if ! unshare --net --uts true 2>/dev/null; then
    echo 'skipped: this user may not make network namespaces'
    exit
  fi
  BRAID_FIRST_HOST=1 exec unshare --net --uts "$0" "$@"
fi

work=$(mktemp -d)
unshare --net --uts sleep infinity &
other=$!
trap 'kill $other; pkill -KILL -f "output.root=$work|--resume $work" || true; rm -rf "$work"' EXIT
on_other() { nsenter --target "$other" --net --uts "$@"; }
until [[ $(readlink "/proc/$other/ns/uts") != "$(readlink /proc/self/ns/uts)" ]]; do sleep 0.01; done
hostname first
on_other hostname second
ip link add cable type veth peer name cable netns "$other"
ip address add 10.77.0.1/24 dev cable
on_other ip address add 10.77.0.2/24 dev cable
for on in eval on_other; do
  $on ip link set lo up
  $on ip link set cable up
done
printf '10.77.0.1 slots=2\n10.77.0.2 slots=2\n' >"$work/hosts"
# In place of ssh HOST COMMAND.
printf '#!/bin/sh\nshift\nexec nsenter --target %d --net --uts sh -c "$*"\n' "$other" >"$work/agent"
chmod +x "$work/agent"
export OMPI_MCA_plm_rsh_agent=$work/agent

cat >"$work/config.yaml" <<YAML
name: run
seed: 3
parallel: {virtual_ranks: 4, timeout: 20}
model: {name: lenet5}
data: {name: synthetic, size: 256, val_size: 32, image_size: 28, channels: 1}
train: {epochs: 6, batch_size: 16, log_interval: 1}
checkpoint: {every_n_steps: 20}
YAML

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# launch NAME [SETTING]…: in the background, as $launched
launch() {
  local name=$1 settings=() setting
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  "$braid" launch -n 4 --oversubscribe --hostfile "$work/hosts" train "$work/config.yaml" --set output.root="$work/$name" \
    "${settings[@]}" >"$work/$name.txt" 2>&1 &
  launched=$!
}
# until_saved NAME
until_saved() {
  until [[ -n $(find "$work/$1" -name 'step-*.safetensors' 2>/dev/null) ]]; do
    kill -0 "$launched" 2>/dev/null || fail 'the training has ended early:' "$(<"$work/$1.txt")"
    sleep 0.05
  done
}
# ends_with STATUS NAME
ends_with() {
  local status=0
  wait "$launched" || status=$?
  [[ $status == "$1" ]] || fail "expected status $1, got $status" "$(<"$work/$2.txt")"
}

"$braid" train "$work/config.yaml" --set output.root="$work/alone" >/dev/null
launch pieces parallel.zero=parameters
ends_with 0 pieces
grep -q '4 ranks' "$work/pieces.txt" || fail 'expected four ranks:' "$(<"$work/pieces.txt")"
cmp "$work/alone/run-1/model.safetensors" "$work/pieces/run-1/model.safetensors"

launch stopped train.epochs=10000
until_saved stopped
kill -TERM "$launched"
ends_with 143 stopped
grep -q 'interrupted after step' "$work/stopped.txt" || fail 'expected a saved state:' "$(<"$work/stopped.txt")"

launch cut train.epochs=10000
until_saved cut
ip link set cable down
status=0
wait "$launched" || status=$?
((status != 0)) || fail 'expected an error' "$(<"$work/cut.txt")"
grep -Eq 'rank [0-3] has given no sign of life for 20 s; .*; [0-9]+ steps had finished' "$work/cut.txt" ||
  fail 'expected the rank that is cut off:' "$(<"$work/cut.txt")"
grep -q 'the newest checkpoint is that of step' "$work/cut.txt" || fail 'expected what is saved:' "$(<"$work/cut.txt")"
