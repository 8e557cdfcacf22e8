"""Writes, finds and restores checkpoints, and reads model folders of `transformers`."""
