"""SQuAD: answering questions with spans of paragraphs."""

# Files in --output_dir that have a run's answers.
PREDICTIONS, NBEST, ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
# The file with the questions of --dev_fraction.
DEV_SPLIT = "dev_split.json"
# Which answers of a question to train on, see --answers.
ONE, FIRST, ALL = WHICH_ANSWERS = ("one", "first", "all")
