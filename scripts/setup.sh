#!/usr/bin/env bash
# Installs the packages that Braid is built from and tested with, if any is missing (Debian and Ubuntu).
# Returns at once if all are installed. BRAID_SETUP=skip skips the check, for dependencies installed by other means.
# --demo installs only the dependencies of the program and the demo. --tests also installs the optional dependencies of
# tests that are otherwise skipped, as far as the system offers them.
set -euo pipefail

if [[ ${BRAID_SETUP-} == skip ]]; then exit 0; fi

packages=(
  g++ cmake ninja-build
  libdnnl-dev ocl-icd-opencl-dev  # oneDNN: convolutions and matrix products on CPU; its CMake package requires OpenCL
  libyaml-cpp-dev        # configs
  nlohmann-json3-dev     # plans, logs, profiles
  libcli11-dev           # command line
  libcpp-httplib-dev pkg-config  # serving pages; only pkg-config knows its compile flags
  libstb-dev             # PNG and JPEG
  zlib1g-dev             # compressed data files
  dataset-fashion-mnist  # the data set of the demo
)
if [[ ${1-} != --demo ]]; then
  packages+=(
    ccache python3
    libopenmpi-dev openmpi-bin  # training by several processes; not needed by one
    doctest-dev        # tests
  )
fi
cmake_needed=3.25

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  cat >&2 <<'TEXT'
setup: this is not a Debian or Ubuntu system. Please install, with headers:
  a C++20 compiler (GCC 12 or newer), CMake 3.25 or newer, Ninja, ccache (optional), Python 3,
  oneDNN (with OpenCL, if it was built so), yaml-cpp, nlohmann-json, CLI11, cpp-httplib, pkg-config, stb, zlib, doctest,
  Open MPI (optional: to train by several processes),
  and the four files of Fashion-MNIST (compressed or not) in /usr/share/datasets/fashion-mnist.
Then set BRAID_SETUP=skip, and the scripts will take your word for it.
TEXT
  exit 1
fi

for_tests=(
  chromium-headless-shell  # opens the page of a plan
  nodejs python3-venv  # compare the planner in WebAssembly with the program
  node-js-yaml  # reads configs in the site
  iproute2  # cuts a link between ranks
  doxygen  # makes the pages of the public headers
  python3-jsonschema python3-yaml  # check configs against their schema
  clang-16 libclang-rt-16-dev  # sanitizers, fuzzers, and what users compile
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $status == 'install ok installed' ]] || missing+=("$package")
done

if [[ ${1-} == --tests ]]; then
  for package in "${for_tests[@]}"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [[ $status == 'install ok installed' ]] && continue
    if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
  done
fi

if ((${#missing[@]} > 0)); then
  printf 'setup: installing %s\n' "${missing[*]}"
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "needs root to run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120)
  "${as_root[@]}" dpkg --configure -a  # in case the last installation was interrupted
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
fi

cmake_found=$(cmake --version | sed -n '1s/^cmake version \([0-9.]*\).*/\1/p')
if [[ $(printf '%s\n' "$cmake_needed" "$cmake_found" | sort -V | head -n 1) != "$cmake_needed" ]]; then
  fail "CMake $cmake_needed or newer is needed, this system has $cmake_found." \
    "Install a newer one, for instance with: python3 -m pip install cmake"
fi
