"""Chooses the operations that compute in low precision, and converts graphs."""
