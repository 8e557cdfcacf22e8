#!/usr/bin/env bash
# Runs the tests that `make test` omits, on the Pythons that this machine has: `make test-all`. Ends
# with a table of the time of each part: seconds, and seconds summed over all cores.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
table=""
trap 'printf "%8s %8s  part\n%s" seconds cores "$table"' EXIT

busy() { awk '/^cpu /{print int(($2 + $3 + $4 + $7 + $8) / 100)}' /proc/stat; }

part() {
  local began=$SECONDS before line
  before=$(busy)
  "$@"
  printf -v line "%8d %8d  %s\n" $((SECONDS - began)) $(($(busy) - before)) "$*"
  table+=$line
}

# A part for each Python; without it, CI fails and others continue.
with_python() {
  local version=$1
  shift
  if [ "${CI:-}" = true ] || python3."$version" -c "import ensurepip" 2>/dev/null; then
    part "$@"
  else
    table+="       -        -  $*: there is no Python 3.$version"$'\n'
  fi
}

# The tutorial is about its output.
part make demo
part "$python" -m pytest tests/readme/tutorial.py
part make demo-v2
part make pytest FLAGS="--rest --durations=40"
with_python 10 make test-gaudi
# Benchmarks that the tests only run in part.
part make bench NAME=scaling FLAGS="--batch_size=1 --seq_length=16 --steps=1 --rounds=1"
part make bench NAME=features FLAGS="--turns=1 --rounds=1 --lcs_examples=2 --questions=2000"
part "$python" -m pytest tests/readme/walk_through.py
# The kills are the same every time; signals arrive at different moments.
part make test-faults FLAGS="--kills=6 --signals=3 --seed=1"
# Skips with a reason where network namespaces are not permitted.
CI=false part make test-multihost
with_python 10 make test-python-3.10
with_python 13 make test-python-3.13
with_python 12 make test-wheel-3.12
