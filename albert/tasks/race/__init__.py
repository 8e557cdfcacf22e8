"""RACE, from passages with questions and options over features and model to scores."""
