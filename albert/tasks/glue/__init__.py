"""GLUE and one's own classification tasks: files -> examples -> features -> model -> scores."""
