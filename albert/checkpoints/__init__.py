"""Checkpoints: written, found, restored, and those of `transformers`."""
