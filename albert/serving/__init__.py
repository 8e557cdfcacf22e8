"""A model as an HTTP server."""
