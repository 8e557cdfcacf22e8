"""Flags that programs share, and their values."""
