"""Detects HPU, GPU and CPU, and provides their operations."""
