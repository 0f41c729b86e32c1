#!/usr/bin/env bash
# From a fresh clone to trained networks: installs what is missing, builds, and trains three networks at once on
# Fashion-MNIST, for one epoch. Ends with their test accuracies.
# Further arguments go to `braid train`, for instance: scripts/demo.sh --set train.epochs=1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
cmake --preset release
cmake --build --preset release --target bin/braid
exec build/release/bin/braid train configs/concurrent.yaml "$@"
