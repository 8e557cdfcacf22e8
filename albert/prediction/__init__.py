"""Prediction with a model and its weights: its graph, its session, its export."""
