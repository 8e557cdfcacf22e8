"""An HTTP server for a model."""
