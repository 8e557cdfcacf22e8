"""Encoders as graphs of ONNX."""
