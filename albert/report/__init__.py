"""Looking at predictions: as a page for a browser, and on the terminal."""

# The page that a run leaves in --output_dir.
PAGE = "predictions.html"
# Samples of a view, see `report.page`, by what counts in them.
ONLY = {
    "all": lambda sample: True,
    "wrong": lambda sample: sample["right"] is False,
    "right": lambda sample: sample["right"] is True,
    "unanswerable": lambda sample: sample.get("unanswerable", False),
    "abstained": lambda sample: sample.get("abstained", False),
}
