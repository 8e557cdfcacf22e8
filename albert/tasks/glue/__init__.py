"""GLUE and your own classification tasks, from files over features and model to scores."""
