#!/usr/bin/env bash
# Builds the site, with the planner as a page in a browser: scripts/site.sh [FOLDER], build/site by default.
#
# FOLDER works from files or any server, and its pages load nothing from elsewhere. The compiler is the Clang in
# PyPI's ziglang. Exits with 77 if PyPI cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

site=${1-build/site}
scripts/python_env.sh build/ziglang ziglang==0.17.1
zig=$(build/ziglang/bin/python -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).resolve().parent / "zig")')
export ZIG_GLOBAL_CACHE_DIR=$PWD/build/ziglang/cache  # what it has compiled
cmake -S apps/playground -B build/playground -G Ninja -DZIG="$zig" >build/ziglang/configure.log
cmake --build build/playground
scripts/make_site.py build/playground/planner.wasm "$site"
du -h "$site"/*
