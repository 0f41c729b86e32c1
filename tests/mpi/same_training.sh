#!/usr/bin/env bash
# Trains on one rank, and then on four, which must print the same losses, bit for bit.
#
#   same_training.sh MPIRUN PROGRAM
set -euo pipefail
mpirun=$1 program=$2

alone=$("$program" 3)
[[ $(grep -c '^loss ' <<<"$alone") == 3 ]]
together=$("$mpirun" -n 4 --oversubscribe "$program" 3)
if [[ $together != "$alone" ]]; then
  printf 'one rank:\n%s\nfour ranks:\n%s\n' "$alone" "$together"
  exit 1
fi
