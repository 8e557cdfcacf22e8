"""Display of predictions, as a page for a browser and on the terminal."""

# Predictions in --output_dir, as data and as the page that contains them.
PREDICTIONS, PAGE = "predictions.jsonl", "predictions.html"
# Filters of samples (see `report.predictions`), by name.
ONLY = {
    "all": lambda sample: True,
    "wrong": lambda sample: sample["right"] is False,
    "right": lambda sample: sample["right"] is True,
    "unanswerable": lambda sample: sample.get("unanswerable", False),
    "abstained": lambda sample: sample.get("abstained", False),
}
