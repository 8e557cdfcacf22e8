"""Tasks, which turn text into features, add a head to the encoder, and score its outputs."""
