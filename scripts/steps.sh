# Sourced by scripts that take minutes: a line per step, instead of hundreds from compilers and package managers.
#
#   begin_steps 4 build/release/log.txt
#   step 'configuring' cmake --preset release
#
# The output of a step goes to the log and is shown if the step fails. Where CI is set, it is shown as it comes.
# shellcheck shell=bash

begin_steps() {
  step_count=$1 step_log=$2 step_number=0
  mkdir -p "$(dirname "$step_log")"
}

# next_step TITLE: only says what comes.
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

# build_step TITLE COMMAND…: the same for a command that runs Ninja, whose own single line of progress a terminal shows.
build_step() {
  if [[ -t 1 && -z ${CI-} ]]; then
    next_step "$1"
    shift
    "$@"
  else
    step "$@"
  fi
}

# about SECONDS: how long a job that keeps one core busy for so long takes on all cores of this machine.
about() {
  local cores minutes
  cores=$(nproc)
  minutes=$((($1 + 60 * cores - 1) / (60 * cores)))
  if ((cores == 1)); then echo "about $minutes min on one core"; else echo "about $minutes min on $cores cores"; fi
}

# only_build FOLDER: one build in a folder at a time. A build outlives a script that is killed; the next one waits for it.
only_build() {
  command -v flock >/dev/null || return 0
  mkdir -p "$1"
  exec 9>"$1/.lock"
  flock --nonblock 9 && return
  echo "waiting for another build in $1 to end …"
  flock 9
}
end_build() { exec 9>&-; }
