"""Pretraining, from plain text over masked sentence pairs, records and model to scores."""
