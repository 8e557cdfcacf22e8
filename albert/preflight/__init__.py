"""Checks of a job before it runs: its files, memory, workers and duration."""

# Default bandwidth of the network between workers on other machines, see --gbit.
GBIT = 100.0
