"""Checks of a job before it runs: its files, memory, workers and duration."""

# Of the network between workers elsewhere, unless --gbit says otherwise.
GBIT = 100.0
