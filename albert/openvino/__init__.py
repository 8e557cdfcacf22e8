"""Encoders that OpenVINO computes, another engine for prediction, and their form in int8."""

import sys

# OpenVINO sends a message to Intel when it is imported, and NNCF when it quantizes. Both do without
# if this package cannot be imported.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
