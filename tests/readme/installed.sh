#!/usr/bin/env bash
# Installs the wheel with pip into an empty environment of one Python, then the source
# distribution; outside the clone, trains the demo and asks its model:
#
#   installed.sh python3.13                 what `make test-wheel-3.13` does
#   installed.sh python3.13 DIST FOLDER     with existing files and a demo of seconds, in a folder
#                                           that stays, and runs the tests of the public names
set -euo pipefail
cd "$(dirname "$0")/../.."
clone=$PWD
python=$1
dist=${2:-}
if [ -n "$dist" ]; then
  folder=$3
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  dist=$folder/dist
  .venv/bin/python -m hatchling build -d "$dist" 2>&1 | tail -2
fi
"$python" -m venv "$folder/env"
cd "$folder"
pip() { env/bin/python -m pip install --quiet --disable-pip-version-check "$@"; }
ask() {
  answer=$(env/bin/albert ask demo_output/run-1 --context "Tamar is a bridge. It is 98 m high." \
    --question "How high is Tamar?")
  env/bin/albert --version
  echo "$1 on $(env/bin/python --version): $answer"
  test -n "$answer"
}

if [ $# = 1 ]; then
  pip "$dist"/*.whl
  env/bin/albert demo
else
  "$clone/requirements/install.sh" env/bin/python "$dist"/*.whl
  env/bin/python "$clone/tests/readme/small_demo.py"
fi
ask "wheel"
pip --force-reinstall --no-deps "$dist"/*.tar.gz
ask "source distribution"
if [ $# != 1 ]; then
  # Without the clone's package next to them.
  cp -r "$clone/tests" .
  pip hypothesis packaging pytest pytest-timeout
  env/bin/python -m pytest -q --rootdir=. --import-mode=importlib -p no:cacheprovider \
    -o pythonpath=. tests/test_public.py -k "flags or functions"
fi
