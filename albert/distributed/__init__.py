"""The workers of a job: launcher, collectives and heartbeats."""
