#!/usr/bin/env bash
# Builds the site, with the planner as a page in a browser: scripts/site.sh [FOLDER [WASM]], build/site by default.
#
# WASM is a planner that is compiled already, for work on the pages alone.
# FOLDER works from files or any server, and its pages load nothing from elsewhere. The compiler is the Clang in
# PyPI's ziglang. Exits with 77 if PyPI cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

site=${1-build/site}
planner=${2-build/playground/planner.wasm}
if (($# < 2)); then
  scripts/python_env.sh build/ziglang ziglang==0.17.1
  zig=$(build/ziglang/bin/python -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).resolve().parent / "zig")')
  export ZIG_GLOBAL_CACHE_DIR=$PWD/build/ziglang/cache  # what it has compiled
  cmake -S apps/playground -B build/playground -G Ninja -DZIG="$zig" >build/ziglang/configure.log
  cmake --build build/playground
fi
scripts/python_env.sh build/markdown markdown-it-py==4.3.0
build/markdown/bin/python scripts/make_site.py "$planner" "$site"
