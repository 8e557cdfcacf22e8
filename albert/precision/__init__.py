"""The list of operations in low precision: `rules.py` decides, `conversion.py` converts a graph."""
