"""Pretraining: plain text -> documents -> masked sentence pairs -> records -> model -> scores."""
