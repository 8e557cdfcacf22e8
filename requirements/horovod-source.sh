#!/usr/bin/env bash
# Downloads Horovod's source into a new folder and makes it fit every TensorFlow from 2.15 to 2.21:
#
#   requirements/horovod-source.sh .venv/bin/python FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 folder=$2

mkdir -p "$folder"
# pip runs the source's setup.py, which calls the environment's `cmake`.
PATH="$(cd "$(dirname "$python")" && pwd):$PATH" \
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --no-binary :all: --require-hashes -r requirements/horovod-source.txt --dest "$folder"
tar -xzf "$folder"/horovod-*.tar.gz -C "$folder" --strip-components=1
rm "$folder"/horovod-*.tar.gz

# One of the two files for TensorFlow is about XLA, which nothing here uses, and needs headers that
# TensorFlow has ceased to ship after 2.15. Without it the other compiles with any of them.
sed -i '/xla_mpi_ops\.cc/d' "$folder/horovod/tensorflow/CMakeLists.txt"

# The other file asks TensorFlow for the GPU's stream by a function that TensorFlow 2.21 no longer
# has, and that no header declares. The stream's own accessor is in the headers of all versions.
operations=$folder/horovod/tensorflow/mpi_ops.cc
sed -i -e '/^\/\/ Forward declaration of AsGpuStreamValue/d' \
  -e 's/^GpuStreamHandle AsGpuStreamValue(Stream\* stream);$//' \
  -e 's/stream_executor::gpu::AsGpuStreamValue(/gpu_stream(/' \
  -e '0,/^#endif \/\/ HAVE_GPU$/s//static GpuStreamHandle gpu_stream(stream_executor::Stream* stream) {\
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\
}\
&/' "$operations"
if grep -q AsGpuStreamValue "$operations"; then
  echo "$0: error: this Horovod has other calls for GPU streams than 0.28.1; adapt $0" >&2
  exit 1
fi
