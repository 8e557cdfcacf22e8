"""Computes gradients, and shards the optimizer over the workers."""
