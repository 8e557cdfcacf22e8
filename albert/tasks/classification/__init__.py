"""Shared parts of the tasks that choose one of several labels or predict a number."""
