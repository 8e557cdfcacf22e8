"""A sixth task, in one file: to rate how similar two texts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.inference.classification import TextClassifier
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records.sequences import sequences_of
from albert.report.predictions import View
from albert.settings.fields import DATA, FEATURES, Affects, redefined, setting
from albert.settings.run_settings import KeptCheckpoints
from albert.settings.text_settings import TextSettings
from albert.tables.tables import read_json_lines
from albert.tasks import Entry
from albert.tasks.classification.base import LabelTask
from albert.tasks.classification.head import ClassifierOutput, make_head, pooled_scores
from albert.tasks.classification.records import serialize
from albert.tasks.classification.view import labels_view

ENTRY = Entry(
    command="rate",
    version="",
    program="",
    kind="rating",
    parts="tests.programs.rating.Rating",
    model="tests.programs.rating.Rater",
    summary="rate how similar two texts are: your own data",
)


class RatingSettings(KeptCheckpoints, TextSettings):
    """Trains a model to rate how similar two texts are, and scores it.

      albert rate --train_file=train.jsonl --predict_file=dev.jsonl --output_dir=out

    A line of a file has a first text, a second text and a rating.
    """

    feature_files = {"cached_dir": ""}
    max_seq_length: int = redefined(TextSettings, "max_seq_length", 128, lower=5)
    train_file: str = setting("", "Training set.", DATA, Affects.WEIGHTS, path=True)
    predict_file: str = setting("", "Development set.", DATA, Affects.SCORES, path=True)
    do_eval: bool = setting(True, "Score every checkpoint on --predict_file.", DATA)
    cached_dir: str | None = setting(None, "Folder for the feature files.", FEATURES, path=True)
    scale: float = setting(1.0, "Factor of all ratings.", FEATURES, Affects.FEATURES, lower=0.01)


class Pair(NamedTuple):
    """Two texts with a rating."""

    name: str
    texts: tuple[str, str]
    rating: float


class RatingTask(LabelTask):
    """The task, which is scored by the correlation with the true ratings."""

    settings: RatingSettings
    kind, best_by, needs_all_states = "rating", "pearson", False
    labels, dropout = [None], 0.1

    def read(self, split: str) -> list[Pair]:
        rows = read_json_lines(self.input_path(split))
        scale = self.settings.scale
        return [
            Pair(f"line {at.line}", (row["first"], row["second"]), scale * float(row["rating"]))
            for at, row in rows
        ]

    def records(self, examples: Sequence[Pair]) -> list[bytes]:
        length = self.settings.max_seq_length
        sequences = sequences_of([pair.texts for pair in examples], self.tokenizer, length)
        rows = zip(sequences, examples, strict=True)
        return [serialize([sequence], pair.rating, length) for sequence, pair in rows]

    def head(self) -> Head:
        return make_head(1, self.dropout, layers=rate)

    def scores(self, examples: Sequence[Pair], predictions: Sequence[Output]) -> dict[str, float]:
        ratings = [[o["predictions"] for o in predictions], [pair.rating for pair in examples]]
        return {"pearson": float(np.corrcoef(np.array(ratings, np.float64))[0, 1])}

    def view(
        self, examples: Sequence[Pair], predictions: Sequence[Output], scores: Mapping[str, float]
    ) -> View:
        texts = [{"id": pair.name, "texts": pair.texts, "passage": None} for pair in examples]
        return labels_view("Ratings", texts, predictions, self.labels, scores)


def rate(
    pooled: tf.Tensor, ratings: tf.Tensor | None, dropout: float, size: int
) -> ClassifierOutput:
    """Builds the layer that rates texts from pooled outputs [B, H]; the loss is a distance."""
    rated = tf.squeeze(pooled_scores(pooled, size, dropout), axis=-1)
    losses = None if ratings is None else tf.abs(rated - ratings)
    return ClassifierOutput(losses, rated[:, tf.newaxis], rated, rated)


class Rater(TextClassifier):
    """A trained model, which rates pairs of texts."""

    def head(self) -> Head:
        return make_head(1, 0.0, layers=rate)
