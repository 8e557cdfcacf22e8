"""Encoders in ONNX: their graphs, and ONNX Runtime as another engine for prediction."""
