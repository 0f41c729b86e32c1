#!/usr/bin/env bash
# Trains on one rank, and then on 2 and 4, which must print the same losses, bit for bit.
#
#   same_training.sh MPIRUN PROGRAM
set -euo pipefail
mpirun=$1 program=$2

alone=$("$program" 3)
[[ $(grep -c '^loss ' <<<"$alone") == 3 ]]
for ranks in 2 4; do
  together=$("$mpirun" -n "$ranks" --oversubscribe "$program" 3)
  if [[ $together != "$alone" ]]; then
    printf 'one rank:\n%s\n%d ranks:\n%s\n' "$alone" "$ranks" "$together"
    exit 1
  fi
done
