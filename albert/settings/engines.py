"""Software that can compute an encoder in prediction: the values of --engine."""

TENSORFLOW, ONNXRUNTIME = "tensorflow", "onnxruntime"
ENGINES = (TENSORFLOW, ONNXRUNTIME)
