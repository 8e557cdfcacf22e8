"""SQuAD: question answering by a span of the paragraph."""

# The files in which a run leaves its answers, in --output_dir.
PREDICTIONS, NBEST, ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
