"""A run: from settings to checkpoints, scores and exports."""
