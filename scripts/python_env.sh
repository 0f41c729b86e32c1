#!/usr/bin/env bash
# Makes a Python environment with packages from PyPI, for tests that compare Braid with other tools:
#
#     scripts/python_env.sh FOLDER PACKAGE…
#     FOLDER/bin/python …
#
# Does nothing if FOLDER has them already. Exits with 77 if PyPI cannot be reached.
set -euo pipefail

folder=$1
shift
skip() {
  echo "python_env: skipped ($1)"
  exit 77
}
mkdir -p "$folder"
[[ -x $folder/bin/pip ]] || python3 -m venv "$folder" || skip 'python3 cannot make virtual environments: install python3-venv'
"$folder/bin/pip" install --quiet --disable-pip-version-check "$@" 2>"$folder/log" ||
  skip "PyPI did not give $* ($(tail -n 1 "$folder/log"))"
