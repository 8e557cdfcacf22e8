"""Feature files: written once, and read as batches in a reproducible order."""
