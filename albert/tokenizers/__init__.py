"""SentencePiece and WordPiece tokenization, and the positions of tokens in a text."""
