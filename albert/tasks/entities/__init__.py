"""Named entities: from annotated texts over features and model to spans and their scores."""
