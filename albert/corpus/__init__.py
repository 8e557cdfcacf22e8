"""Text for pretraining from Wikipedia's dumps, folders of texts, and JSON Lines."""
