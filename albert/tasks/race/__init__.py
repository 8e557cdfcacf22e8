"""RACE: passages -> questions with four options -> features -> model -> scores."""
