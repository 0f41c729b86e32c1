#!/usr/bin/env bash
# Packs a CUDA build into one folder that runs on another x86-64 Linux machine, with a GPU but without our packages, and the
# folder into DIR.tar.xz. That archive and the sources, compressed too, take at most 56 MiB together.
#
#   scripts/bundle.sh [-o DIR] [--build DIR]
#
# The target needs a C library no older than this machine's, a driver, and CUDA's libraries as installed by pip (torch
# depends on them): `run` finds them through python3. The bundle contains all other libraries. On the target:
#
#   tar xf DIR.tar.xz || python3 -m tarfile -e DIR.tar.xz
#   DIR/bin/braid devices
#   DIR/scripts/gpu_check.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit_mib=56
target=build/bundle
build=build/cuda
fail() {
  printf 'bundle: %s\n' "$*" >&2
  exit 1
}
while (($# > 0)); do
  case $1 in
    -o) target=${2:?-o needs a folder} ;;
    --build) build=${2:?--build needs a folder} ;;
    *) fail "unknown argument '$1'; usage: scripts/bundle.sh [-o DIR] [--build DIR]" ;;
  esac
  shift 2
done
[[ -x $build/bin/braid ]] || fail "there is no $build/bin/braid: run cmake --preset cuda && cmake --build --preset cuda"
[[ ! -e $target || -e $target/run ]] || fail "$target exists and is not a bundle: remove it, or choose another folder with -o"

rm -rf "$target"
mkdir -p "$target/bin" "$target/programs" "$target/lib" "$target/scripts"
programs=()
for name in braid test_gpu; do
  [[ -x $build/bin/$name ]] || continue
  programs+=("$build/bin/$name")
  strip -o "$target/programs/$name" "$build/bin/$name"
  # shellcheck disable=SC2016  # expanded there, not here
  printf '#!/bin/sh\nexec "$(dirname "$0")/../run" %s "$@"\n' "$name" >"$target/bin/$name"
done

# The target provides the libraries of the driver and the C library; its python3 provides CUDA's.
others='^(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libcuda|libcudart|libcudnn[a-z_]*|libcublas|libcublasLt|libnvrtc.*)\.so'
while read -r name path; do
  [[ $name =~ $others ]] || cp -L "$path" "$target/lib/$name"
done < <(ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u)
strip --strip-unneeded "$target"/lib/*

cp -r configs benchmarks "$target"
cp scripts/gpu_check.sh "$target/scripts"
find "$target" -name __pycache__ -prune -exec rm -r {} +

cat >"$target/run" <<'RUN'
#!/usr/bin/env bash
# Runs a program of this bundle with the libraries that it needs, as in: run braid devices
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cuda=$(
  python3 - <<'PYTHON' || true
import glob, os, site, sys
folders = [*sys.path, *site.getsitepackages(), site.getusersitepackages()]
print(":".join(sorted({lib for folder in folders for lib in glob.glob(os.path.join(folder, "nvidia", "*", "lib"))})))
PYTHON
)
export LD_LIBRARY_PATH=$here/lib${cuda:+:$cuda}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
program=$here/programs/${1:?usage: run PROGRAM [ARGUMENT…]}
shift
exec "$program" "$@"
RUN
chmod +x "$target/run" "$target"/bin/*

# The data set of the demo, uncompressed: xz compresses it better than gzip did.
data=/usr/share/datasets/fashion-mnist
if [[ -d $data ]]; then
  mkdir "$target/data"
  for file in "$data"/*-ubyte*; do gzip -cdf "$file" >"$target/data/$(basename "$file" .gz)"; done
fi

# The programs hold the same kernels: a dictionary that reaches from one to the other saves the second ones. Higher presets take
# twice the time for 7 % less.
tar -C "$(dirname "$target")" -c "$(basename "$target")" | xz --lzma2=preset=1,dict=64MiB >"$target.tar.xz"
bytes=$(stat -c %s "$target.tar.xz")
if git rev-parse --git-dir >/dev/null 2>&1; then
  ((bytes += $(git ls-files -z | tar --null --files-from=- -c | xz -1 | wc -c)))
fi
((bytes <= limit_mib << 20)) || fail "$target.tar.xz and the sources take $((bytes >> 20)) MiB, more than $limit_mib"
printf 'bundle: %s.tar.xz, with the sources %d MiB\n' "$target" $((bytes >> 20))
