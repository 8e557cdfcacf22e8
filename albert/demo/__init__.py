"""A demonstration that trains on made-up articles, and these articles."""
