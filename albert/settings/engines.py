"""Software that can compute an encoder in prediction, and its types: --engine and --precision."""

TENSORFLOW, OPENVINO = "tensorflow", "openvino"
ENGINES = (TENSORFLOW, OPENVINO)
# The types in which a loaded model can compute; `AUTO` is the fastest of the others.
AUTO = "auto"
LOADED_PRECISIONS = (AUTO, "float32", "bfloat16")
