"""Encoders in ONNX: their graphs, and OpenVINO as another engine for prediction."""
