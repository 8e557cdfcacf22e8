"""The encoder's configuration and layers, gradient checkpointing, and padding removal."""
