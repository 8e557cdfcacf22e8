"""Chooses the operations that compute in bfloat16, and converts graphs."""
