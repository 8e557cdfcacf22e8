"""Tables, their rows, and what kind of file they are."""
