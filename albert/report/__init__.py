"""Looking at predictions: as a page for a browser, and on the terminal."""
