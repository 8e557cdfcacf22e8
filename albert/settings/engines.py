"""Software that can compute an encoder in prediction, and its types: --engine and --precision."""

# A value of both flags: the fastest of the others.
AUTO = "auto"
TENSORFLOW, OPENVINO = "tensorflow", "openvino"
ENGINES = (AUTO, TENSORFLOW, OPENVINO)
# The types in which a loaded model can compute.
LOADED_PRECISIONS = (AUTO, "float32", "bfloat16")
