"""Quantizes the encoder of a model to int8, and measures what the model loses."""
