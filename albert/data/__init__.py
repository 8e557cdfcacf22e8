"""Files of features: written once, read as batches in a known order."""
