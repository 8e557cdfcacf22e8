"""Tasks: text to features, a head for the encoder, outputs to scores."""
