"""Inference with a trained model: `load_model` and the classes that it returns."""

from albert.inference.loading import Model, load_model  # noqa: F401
