"""Display of predictions, as a page for a browser and on the terminal."""

# Name of the page in --output_dir.
PAGE = "predictions.html"
# Filters of a view's samples (see `report.page`), by name.
ONLY = {
    "all": lambda sample: True,
    "wrong": lambda sample: sample["right"] is False,
    "right": lambda sample: sample["right"] is True,
    "unanswerable": lambda sample: sample.get("unanswerable", False),
    "abstained": lambda sample: sample.get("abstained", False),
}
