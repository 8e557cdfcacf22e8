#!/usr/bin/env bash
# Installs the wheel with pip into an empty environment of one Python, then the source
# distribution; outside the clone, trains the demo and asks its model. `make test-wheel-3.13`
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
.venv/bin/python -m hatchling build -d "$folder/dist" 2>&1 | tail -2
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

pip dist/*.whl
env/bin/albert demo
ask "wheel"
pip --force-reinstall --no-deps dist/*.tar.gz
ask "source distribution"
