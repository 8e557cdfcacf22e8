"""A made-up corpus, and a demonstration that trains on it."""
