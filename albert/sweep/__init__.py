"""The search for the best flags of a task: `albert sweep`."""
