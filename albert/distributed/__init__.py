"""Workers of a job: their launcher, collectives and heartbeats."""
