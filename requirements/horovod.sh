#!/usr/bin/env bash
# Installs Horovod into an environment:
#
#   requirements/horovod.sh .venv/bin/python cpu|gpu|gaudi
#
# On CPU and GPU it is built against the TensorFlow there, which takes minutes; the wheel stays in
# .wheels/<TensorFlow>/, and `make clean` leaves it. What it needs is in lock-horovod.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 device=$2

pip() { "$python" -m pip "$@" --quiet --disable-pip-version-check --no-deps; }

# Habana's own is built by its setup.py, against Habana's libraries and MPI.
if [ "$device" = gaudi ]; then
  pip install --no-build-isolation --require-hashes -r requirements/habana-horovod.txt
  exit
fi

tag=$("$python" -c 'import sys; print("cp{}{}".format(*sys.version_info))')
# The package has other names in vendors' images, such as tensorflow-rocm.
tensorflow=$("$python" - <<'END'
from importlib import metadata
name = metadata.packages_distributions()["tensorflow"][0]
print(f"{name}-{metadata.version(name)}".replace("_", "-"))
END
)
wheels=.wheels/$tensorflow

build() {
  local folder=$1
  requirements/horovod-source.sh "$python" "$folder" || return
  # Where there are GPUs, gradients go through NVIDIA's NCCL: needs CUDA's compiler and libnccl-dev.
  if [ "$device" = gpu ]; then export HOROVOD_GPU_OPERATIONS=NCCL; fi
  # `mpicc` and `cmake` are the environment's.
  PATH="$(cd "$(dirname "$python")" && pwd):$PATH" \
    HOROVOD_WITH_MPI=1 HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 \
    HOROVOD_WITHOUT_MXNET=1 \
    pip wheel --no-build-isolation --wheel-dir "$wheels" "$folder"
}

# A wheel of an earlier version of the patched source is built again.
if [ -z "$(find "$wheels" -name "horovod-*-$tag-*.whl" -newer requirements/horovod-source.sh 2>/dev/null)" ]; then
  echo "building Horovod for $tensorflow and Python $tag, 2 to 4 minutes"
  mkdir -p "$wheels"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  if ! build "$folder" >"$wheels/build.log" 2>&1; then
    echo "$0: error: Horovod does not build with $tensorflow and Python $tag here, see" \
      "$wheels/build.log; one worker needs no Horovod" >&2
    exit 1
  fi
fi
pip install --no-index --find-links "$wheels" horovod
