"""A generated corpus, and a demonstration that trains on it."""
