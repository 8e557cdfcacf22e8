"""A classifier of texts with the interface of scikit-learn; the only module that imports that."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any

import numpy as np

from albert.api import train
from albert.core.errors import UserError, optional
from albert.inference.loading import AnyPath, load
from albert.tables.dev_split import FEWEST_TEXTS
from albert.tables.rows import rows_of, texts_of
from albert.tasks.glue.label_tables import value_of

with optional("scikit-learn", why="albert.TextClassifier: "):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

# Settings that `fit` sets itself, or that make other models than classifiers.
_REFUSED = {"data", "data_dir", "export_dir", "label_columns", "multi_label", "task_name"}
_REFUSED |= {"tsv_regression"}


class TextClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of texts, or of pairs of texts, for scikit-learn.

    A fitted classifier has the files of its model, and so has a pickle of it. In an `output_dir`,
    which also has the page of predictions, `fit` replaces an earlier run.

    Attributes:
      classes_: the labels, sorted.
      scores_: the scores on a fifth of the texts, which `fit` does not train on; empty if there are
        fewer than ten different texts, or with `do_eval=False`.
    """

    def __init__(self, model: Any = None, output_dir: AnyPath | None = None, **settings: Any):
        """Takes arguments of `albert.train`, which `fit` checks."""
        self.model, self.output_dir, self.settings = model, output_dir, settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_params(deep), **self.settings}

    def set_params(self, **params: Any) -> TextClassifier:
        """Replaces arguments of the constructor, or adds settings."""
        TextClassifier.__init__(self, **{**self.get_params(), **params})
        return self

    def fit(self, X: object, y: object) -> TextClassifier:
        """Trains a model on texts or pairs, in a list or a table; raises a `UserError`."""
        if refused := sorted(_REFUSED & self.settings.keys()):
            raise UserError(f"{refused[0]} is not a setting of TextClassifier; use albert.train")
        texts, labels = _texts(X), column_or_1d(y, warn=True)
        check_consistent_length(texts, labels)
        check_classification_targets(labels)
        classes, numbers = np.unique(labels, return_inverse=True)
        names = [str(one).strip() for one in classes.tolist()]
        if len({*map(value_of, names)}) < len(names):
            raise UserError("y has labels that differ only in white space or are one value; rename")
        own: dict[str, Any] = {"model": self.model, "verbose": False, "overwrite_output_dir": True}
        own["do_eval"] = "dev_data" in self.settings or len({a for a, _ in texts}) >= FEWEST_TEXTS
        own |= self.settings
        own["data"] = [(*both, names[n]) for both, n in zip(texts, numbers, strict=True)]
        with tempfile.TemporaryDirectory() as folder:
            # An export lacks the state of the optimizer, which has twice the size of the model.
            own["export_dir"] = exported = pathlib.Path(folder, "model")
            result = train("classify", self.output_dir or os.path.join(folder, "run"), **own)
            paths = [path for path in exported.rglob("*") if path.is_file()]
            self._files = {str(p.relative_to(exported)): p.read_bytes() for p in paths}
        self.classes_, self.scores_, self._names = classes, result.scores, names
        self._model: Any = None
        return self

    def predict_proba(self, X: object) -> np.ndarray:
        """Returns the probabilities of the labels, [texts, labels], in the order of `classes_`."""
        check_is_fitted(self)
        if self._model is None:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in self._files.items():
                    path = pathlib.Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                self._model = load(folder)
        predicted = self._model.classify_all(_texts(X))
        values = [[one.probabilities[name] for name in self._names] for one in predicted]
        shares = np.array(values).reshape(-1, len(self._names))
        # The model rounds them to float32.
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X: object) -> np.ndarray:
        """Returns the most probable label of each text."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def __getstate__(self) -> dict[str, Any]:
        # A session of TensorFlow cannot be pickled.
        return {**super().__getstate__(), "_model": None}


def _texts(X: object) -> list[tuple[str, str]]:
    """Returns pairs of texts, the second one perhaps empty; columns may have any names."""
    rows = [tuple(row.values()) for row in rows_of(X, ("a", "ab"), "X")]
    return texts_of(rows, "text", optional="second text", what="X")
