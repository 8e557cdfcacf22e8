"""Gradients, and an optimizer that is sharded over workers."""
