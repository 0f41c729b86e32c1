#!/usr/bin/env bash
# Compiles the CUDA backend against the headers of the oldest CUDA and cuDNN that Braid supports, and checks that an
# older toolkit leaves a build without CUDA. Usage: scripts/check_cuda12.sh [HEADERS]
#
# The headers come from PyPI (1.2 GB, of which 90 MB of headers are kept in HEADERS, by default build/cuda12), and
# nvcc of the installed toolkit reads them in place of its own. Exits with 77 if PyPI or nvcc is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cuda=12.8 cudnn=9.11
headers=${1-build/cuda12}
packages=(nvidia-{cuda-runtime,cuda-cupti,cuda-nvcc,cuda-cccl,nvtx,cublas}-cu12=="$cuda.*" "nvidia-cudnn-cu12==$cudnn.*")

skip() {
  printf '\n******** check_cuda12: SKIPPED: %s. Nothing shows that CUDA %s still works.\n\n' "$1" "$cuda"
  exit 77
}

command -v nvcc >/dev/null || skip 'there is no nvcc'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ ! -f $headers/complete ]]; then
  echo "check_cuda12: downloading the headers of CUDA $cuda and cuDNN $cudnn"
  mkdir -p "$headers"
  for package in "${packages[@]}"; do
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$work/wheels" "$package" 2>"$work/log" ||
      skip "PyPI did not give $package ($(tail -n 1 "$work/log"))"
    python3 -c 'import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if "/include/" in name])' "$work"/wheels/*.whl "$work"
    rm "$work"/wheels/*.whl
  done
  cp -r "$work"/nvidia/*/include/. "$headers"
  rm "$headers/crt/host_runtime.h" # what nvcc writes calls it, so the version must be nvcc's own
  touch "$headers/complete"
fi

# Every source of the backend, as far as headers matter: kernels become PTX that is not optimised (-G).
compile() {
  local includes=(-std=c++20 -I. "-I$headers" '-DBRAID_RECORDING_DEVICE=""' '-DBRAID_CUDNN_FOLDER=""' '-DBRAID_CUBLASLT_FOLDER=""')
  case $1 in
    *.cu) nvcc "${includes[@]}" -arch=sm_90 -ptx -G "$1" -o "$work/$(basename "$1").ptx" ;;
    *) "${CXX:-g++}" "${includes[@]}" -fsyntax-only "$1" ;;
  esac
}
export -f compile
export headers work
mapfile -t sources < <(git ls-files 'core/*/cuda/*.cpp' 'ops/*/cuda/*.cpp' 'ops/*/cuda/*.cu' 'examples/*.cu' 'tests/cuda/recording/*.cpp' | grep -v -e unavailable -e recording/nccl)
# shellcheck disable=SC2016  # for the inner shell
printf '%s\n' "${sources[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'compile "$1" || { echo "check_cuda12: FAILED: $1"; exit 1; }' _ {} || exit 1
echo "check_cuda12: ${#sources[@]} sources compile against CUDA $cuda and cuDNN $cudnn"

# A toolkit older than that: a note with AUTO, an error with ON.
old=$work/old
mkdir -p "$old/bin" "$old/include" "$old/lib64"
printf '#!/bin/sh\necho "Cuda compilation tools, release 12.6, V12.6.20"\necho "#\$ TOP=%s" >&2\n' "$old" >"$old/bin/nvcc"
chmod +x "$old/bin/nvcc"
echo '#define CUDA_VERSION 12060' | tee "$old/include/cuda.h" >"$old/include/cuda_runtime.h"
touch "$old/lib64/libcudart.so"
configure() { cmake -S . -B "$work/build" -DCUDAToolkit_ROOT="$old" -DBRAID_CUDA="$1" >"$work/configured" 2>&1; }
line="the CUDA Toolkit $cuda or newer is needed, .* is 12\.6"
if ! configure AUTO || ! grep "^-- CUDA backend: no ($line" "$work/configured" ||
  configure ON || ! tr '\n' ' ' <"$work/configured" | tr -s ' ' | grep -q "BRAID_CUDA=ON: $line"; then
  cat "$work/configured"
  exit 1
fi
echo 'check_cuda12: an older toolkit gives a build without CUDA, and an error with BRAID_CUDA=ON'
