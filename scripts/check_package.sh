#!/usr/bin/env bash
# Checks that a project with headers named like Braid's (tests/package) can use Braid: found by find_package, found by
# pkg-config, and added as a folder; the last also compiles all headers for users, and makes a shared library. The programs of
# docs/cpp are built likewise, and run under sanitizers. Compilers are GCC and, if it is there, Clang; the longest parts take one
# of them.
#
#   scripts/check_package.sh PREFIX [WORK]     PREFIX: where Braid is installed; WORK: folder for the builds
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=${1:?usage: scripts/check_package.sh PREFIX [WORK]}
work=${2:-build/package}

mkdir -p "$work"
compilers=(g++)
for clang in clang++-16 clang++; do
  if command -v "$clang"; then
    compilers+=("$clang")
    break
  fi
done
for compiler in "${compilers[@]}"; do
  echo "-- find_package, $compiler"
  cmake -S tests/package -B "$work/found_$compiler" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log"
  cmake --build "$work/found_$compiler"
  "$work/found_$compiler/package_user"
done

compiler=${compilers[-1]}
echo "-- the programs of docs/cpp, $compiler, with AddressSanitizer and UndefinedBehaviorSanitizer"
cmake -S docs/cpp -B "$work/pages" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_FLAGS="-O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all" >"$work/log"
cmake --build "$work/pages"
ctest --test-dir "$work/pages" --output-on-failure

echo '-- pkg-config'
if command -v pkg-config >/dev/null; then
  read -ra flags < <(PKG_CONFIG_PATH="$(dirname "$(find "$prefix" -name braid.pc)")" pkg-config --cflags --libs braid)
  g++ -std=c++20 -Wall -Wextra -Wconversion -Werror -I"$work/found_g++/own" tests/package/main.cpp "${flags[@]}" -o "$work/by_pkg_config"
  "$work/by_pkg_config"
else
  echo 'skipped (not installed)'
fi

echo '-- components'
cmake -S tests/package -B "$work/component" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCOMPONENTS=core -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_yaml-cpp=ON -DCMAKE_DISABLE_FIND_PACKAGE_dnnl=ON >"$work/log"  # which other libraries need
cmake --build "$work/component"
"$work/component/core_user"
if cmake -S tests/package -B "$work/refused" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCOMPONENTS='core;wings' >"$work/log" 2>&1; then exit 1; fi
grep "no component 'wings'" "$work/log"

echo "-- add_subdirectory, all headers, shared libraries, $compiler"
cmake -S tests/package -B "$work/added" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DBRAID_SOURCE="$PWD" \
  -DBRAID_CUDA=OFF -DBRAID_ONEDNN=OFF -DBUILD_SHARED_LIBS=ON >"$work/log"
cmake --build "$work/added" --target core_user all_headers
"$work/added/core_user"

echo '-- symbols'
# All that linkers see is in namespace braid, but for templates and inline functions in static libraries.
{
  find "$work/added/braid/lib" "$prefix" -name 'libbraid_*.so' -exec nm -C --dynamic --defined-only {} +
  find "$prefix" -name 'libbraid_*.a' -exec nm -C --extern-only --defined-only {} + | grep -v ' [VWu] '
} | grep -E '^[0-9a-f]+ [A-Zu] ' >"$work/symbols"
grep --quiet 'T braid::' "$work/symbols"
if grep -v 'braid::' "$work/symbols"; then exit 1; fi
