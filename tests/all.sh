#!/usr/bin/env bash
# Runs the tests that `make test` omits, on the Pythons that this machine has: `make test-all`. Ends
# with a table of the seconds of each part.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
folder=$(mktemp -d)
table=$folder/table
export folder table
echo " seconds  part" >"$table"
trap 'cat $(compgen -G "$folder/*.log") "$table"; rm -r "$folder"' EXIT

part() {
  local began=$SECONDS
  "$@" || return
  printf "%8d  %s\n" $((SECONDS - began)) "$*" >>"$table"
}

# A line with a command for one Python; without this Python, CI fails and others continue.
with_python() {
  local version=$1
  shift
  if [ "${CI:-}" = true ] || python3."$version" -c "import ensurepip" 2>/dev/null; then
    echo "$*"
  else
    echo "       -  $*: there is no Python 3.$version" >>"$table"
  fi
}

# A part whose output appears in one piece, at its end.
in_one_piece() {
  local log=$folder/$$.log
  part "$@" >"$log" 2>&1 || { echo "failed: $*" >>"$log"; return 1; }
  cat "$log"
  rm "$log"
}

# Runs the command of each line, two at a time, because each keeps about one core busy.
two_at_a_time() {
  export -f part in_one_piece
  grep . | xargs -d '\n' -P 2 -I {} bash -euc 'in_one_piece {}'
}

# The tutorial is about the output of the demo, which `.ci/run` brings.
[ -e demo_output/run-1/predictions.html ] || part make demo
part "$python" -m tests.readme.abstaining
part make pytest FLAGS="--rest --durations=40"
# Tests run only parts of the benchmarks. This one installs packages, so no other part runs now.
part make bench NAME=features FLAGS="--turns=1 --rounds=1 --questions=2000"
# The longest first. The kills are the same every time; signals arrive at different moments. Two
# hosts are skipped with a reason where network namespaces are not permitted.
two_at_a_time <<END
$(with_python 10 make test-python-3.10)
$(with_python 13 make test-python-3.13)
$python -m pytest tests/readme/walk_through.py
make test-faults KILLS=6 SIGNALS=3 SEED=1
$(with_python 12 make test-wheel-3.12)
$(with_python 10 make test-gaudi)
make bench NAME=scaling FLAGS="--batch_size=1 --seq_length=16 --steps=1 --rounds=1"
$python -m pytest tests/readme/tutorial.py
env CI=false make test-multihost
END
