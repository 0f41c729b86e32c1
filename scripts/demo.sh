#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds, and trains ResNet-20 on Fashion-MNIST.
# Further arguments go to `braid train`, for instance: scripts/demo.sh --set train.epochs=1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
cmake --preset release
cmake --build --preset release --target bin/braid
exec build/release/bin/braid train configs/resnet20_fashion_mnist.yaml "$@"
