"""The reference's functions with all their arguments, implemented with the tasks and the model."""
