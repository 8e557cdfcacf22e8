"""SentencePiece and WordPiece, and where in a text tokens are."""
