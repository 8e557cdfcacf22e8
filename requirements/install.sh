#!/usr/bin/env bash
# Installs packages into an environment:
#
#   requirements/install.sh .venv/bin/python -r requirements/lock-cpu.txt
#
# uv takes a fifth of the time of pip, but ignores the settings of pip. So pip installs where they
# name another index, and where uv fails.
set -euo pipefail
python=$1
shift

# Where the home folder cannot be written to, as in some containers.
cache=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/uv}
{ mkdir -p "$cache" && [ -w "$cache" ]; } 2>/dev/null || export UV_NO_CACHE=true

pip() { "$python" -m pip "$@" --disable-pip-version-check; }

if ! pip config list | grep -Eq '[.](index-url|no-index)=' &&
  pip install --quiet --require-hashes -r "$(dirname "$0")/lock-uv.txt" &&
  UV_NATIVE_TLS=true "$python" -m uv pip install --quiet "$@"; then
  exit
fi
echo "uv does not install here, so pip does; this takes a few minutes"
# The last line of an error names the host that does not answer, if any.
pip install --quiet "$@" || exec "$python" "$(dirname "$0")/reach.py"
