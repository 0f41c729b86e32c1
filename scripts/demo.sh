#!/usr/bin/env bash
# Leads from a fresh clone to trained networks: installs what is missing, builds, and trains three networks at once on
# Fashion-MNIST, for one epoch. Ends with their test accuracies and a page about them. You can stop and restart it at
# any time. Arguments go to `braid train`, for instance: scripts/demo.sh --set train.epochs=2
#
# The first build includes the CUDA backend if this machine has a GPU and the toolkit, or if BRAID_CUDA=ON is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

build=build/release
begin_steps 4 $build/log.txt
only_build $build
step 'installing what is missing' scripts/setup.sh --demo

# An existing build keeps its settings.
settings=()
has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU 0'; }
if [[ ! -f $build/build.ninja ]]; then
  cuda=OFF
  if has_gpu; then cuda=AUTO; fi
  settings=(-DBRAID_TESTS=OFF "-DBRAID_CUDA=$cuda")
fi
if [[ -n ${BRAID_CUDA-} ]]; then settings+=("-DBRAID_CUDA=$BRAID_CUDA"); fi
configure() { ((${#settings[@]} == 0)) || cmake --preset release "${settings[@]}"; }
step 'configuring' configure

build_time=$(about 400) training_time=" ($(about 280))"
if grep -q '^BRAID_CUDA:STRING=OFF$' $build/CMakeCache.txt; then
  if command -v nvcc >/dev/null; then build_time+=', without the CUDA backend: BRAID_CUDA=ON asks for it'; fi
else
  build_time="$(about 300), including the CUDA backend if its dependencies are installed" training_time=
fi
if [[ -x $build/bin/braid ]]; then build_time='what has changed'; fi
build_step "building ($build_time)" cmake --build --preset release --target bin/braid
end_build

if has_gpu; then
  reason=$($build/bin/braid devices | sed -n 's/^cuda: not available: //p')
  if [[ -n $reason ]]; then
    echo "This machine has a GPU, but training will use the CPU: $reason." \
      "BRAID_CUDA=ON scripts/demo.sh builds for the GPU, or says what is missing."
  fi
fi
next_step "training ResNet-20, a GoogLeNet and a PathNet-like net at once$training_time"
$build/bin/braid train configs/concurrent.yaml --report "$@"
