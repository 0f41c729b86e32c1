# Sourced by scripts that take minutes: prints one line per step instead of the output of compilers and package managers.
#
#   begin_steps 4 build/release/log.txt
#   step 'configuring' cmake --preset release
#
# The output of a step goes to the log and is shown if the step fails. If CI is set, it is shown as it arrives.
# shellcheck shell=bash

begin_steps() {
  step_count=$1 step_log=$2 step_number=0
  mkdir -p "$(dirname "$step_log")"
}

# next_step TITLE: only announces the step.
next_step() {
  step_number=$((step_number + 1))
  printf '[%d/%d] %s …\n' "$step_number" "$step_count" "$1"
}

# step TITLE COMMAND…: runs a command. Returns its status.
step() {
  local status=0
  next_step "$1"
  shift
  if [[ -n ${CI-} ]]; then
    "$@"
    return
  fi
  "$@" >"$step_log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 60 "$step_log"
    printf 'failed (exit status %d): %s\nThe whole output is in %s\n' "$status" "$*" "$step_log"
  fi >&2
  return "$status"
}

# build_step TITLE COMMAND…: does the same for a command that runs Ninja; a terminal shows Ninja's own line of progress.
build_step() {
  if [[ -t 1 && -z ${CI-} ]]; then
    next_step "$1"
    shift
    "$@"
  else
    step "$@"
  fi
}

# about SECONDS: the time on all cores of this machine for a job that takes SECONDS on one core.
about() {
  local cores minutes
  cores=$(nproc)
  minutes=$((($1 + 60 * cores - 1) / (60 * cores)))
  if ((cores == 1)); then echo "about $minutes min on one core"; else echo "about $minutes min on $cores cores"; fi
}

# sanitizing_clang: the name of a Clang that has its sanitizers and libFuzzer, and reads the headers of GCC 12.
sanitizing_clang() {
  local name
  for name in clang++-{16..20} clang++; do
    if "$name" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null <<<'#include <ranges>
      static_assert(__clang_major__ >= 16);' &&
      "$name" -fsanitize=fuzzer,address -x c++ -o /dev/null - 2>/dev/null \
        <<<'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'; then
      echo "$name"
      return
    fi
  done
  echo "there is no Clang 16 or newer with sanitizers (Debian's packages clang-16 and libclang-rt-16-dev)" >&2
  return 1
}

# only_build FOLDER: allows one build in a folder at a time. A build outlives a killed script; the next script waits for it.
only_build() {
  command -v flock >/dev/null || return 0
  mkdir -p "$1"
  exec 9>"$1/.lock"
  flock --nonblock 9 && return
  echo "waiting for another build in $1 to end …"
  flock 9
}
end_build() { exec 9>&-; }
