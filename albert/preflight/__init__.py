"""Checks of a job before it runs: its files, memory, workers and duration."""
