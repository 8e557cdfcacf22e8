"""Parts of the encoder: its configuration, layers, and what saves memory and work."""
