"""The workers of a job: launcher, collectives, heartbeats and failures."""
