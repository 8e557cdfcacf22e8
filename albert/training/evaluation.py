"""Scores every checkpoint of a run and keeps the best.

`eval_results.json` records the scores and the settings they were computed with. Recorded
checkpoints are not scored again, so a stopped run resumes with the next checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import (
    BEST,
    checkpoint_step,
    copy_checkpoint,
    list_checkpoints,
    resolve_checkpoint,
)
from albert.checkpoints.model_folder import SCORES
from albert.core.errors import UserError
from albert.core.files import open_atomically, sha256_of, write_json
from albert.core.record import change_in, differences, read_record
from albert.settings.run_settings import AUTO_RECIPE, RunSettings
from albert.training import metrics

_VERSION = 1


class CheckpointScores(NamedTuple):
    """A checkpoint's scores by name, and a function that writes its predictions if it is best."""

    scores: dict[str, float]
    write_outputs: Callable[[], None]


class Evaluation:
    """The scores of a folder's checkpoints."""

    def __init__(self, run: RunSettings, best_by: str, outputs: Sequence[str], settings: dict):
        """Reads the scores of earlier evaluations with the same settings.

        If the folder of the run has no checkpoint, --init_checkpoint is scored.

        Args:
          best_by: the score that decides which checkpoint is best; without scores, the last is.
          outputs: names of the files in the folder that receive the best checkpoint's predictions.
          settings: JSON object with everything that scores depend on, except the checkpoint.
        """
        self._run, self._best_by, self._outputs, self._settings = run, best_by, outputs, settings
        self._folder = run.output_dir
        # Small development sets have many ties, and a later checkpoint has learned more. The
        # reference keeps the first one.
        self._takes_last = getattr(run, "recipe", "") == AUTO_RECIPE
        self._best_path = os.path.join(self._folder, BEST)
        # If the initial checkpoint is scored, it is not copied.
        self._keeps_best = bool(list_checkpoints(self._folder))
        self._has_best = self._keeps_best or os.path.exists(self._best_path + ".index")
        # Which output is missing or has changed, if any.
        self._change: str | None = None
        self._history = self._recorded()

    @property
    def best(self) -> dict:
        """Returns the best entry of the history: "global_step", "checkpoint" and scores."""
        best = self._history[0]
        for entry in self._history[1:]:
            best = entry if self._is_better(entry, best) else best
        return best

    @property
    def _key(self) -> str:
        """The name of the value that decides which entry of the history is best."""
        return self._best_by if self._best_by in self._history[0] else "global_step"

    def _is_better(self, entry: dict, best: dict) -> bool:
        score, other = entry[self._key], best[self._key]
        return score > other or (self._takes_last and score == other)

    def since_best(self) -> int:
        """Returns how many checkpoints have been scored after the best one."""
        return len(self._history) - 1 - self._history.index(self.best) if self._history else 0

    def score_all(self, score: Callable[[str], CheckpointScores]) -> dict:
        """Scores new checkpoints and returns the best entry; raises a `UserError` without any."""
        if not self._history:
            self._number_the_best()
        checkpoints = self._checkpoints()
        scored = {entry["checkpoint"] for entry in self._history}
        todo = [c for c in checkpoints if os.path.basename(c) not in scored]
        if not todo:
            tf.logging.info("All %d checkpoints already have scores", len(self._history))
        # Without the lines of checkpoints that are scored again.
        metrics.keep(
            self._folder,
            lambda line: line["kind"] != metrics.SCORES or line.get("checkpoint") in scored,
        )
        if self._change:
            tf.logging.warning("%s: predicting with the best checkpoint again", self._change)
            best = self._best_path if self._has_best else self._run.init_checkpoint
            score(resolve_checkpoint(best)).write_outputs()
            self._write_record(self._files())
        for checkpoint in todo:
            self._add(checkpoint, score(checkpoint))
        if self._key != self._best_by:
            tf.logging.warning("There are no answers to compare with: computing no scores")
        return self.best

    def _number_the_best(self) -> None:
        """Copies `model.ckpt-best` to its number if that is gone, as a new best may replace it."""
        numbered = list_checkpoints(self._folder)
        if not numbered or not os.path.exists(self._best_path + ".index"):
            return
        try:
            step = checkpoint_step(resolve_checkpoint(self._best_path))
        except UserError as e:
            tf.logging.warning("%s; it will be replaced", e)
            return
        if step not in numbered:
            copy_checkpoint(self._best_path, os.path.join(self._folder, f"model.ckpt-{step}"))

    def _checkpoints(self) -> list[str]:
        """Returns the checkpoints to score: the numbered ones, else the best, else the initial."""
        numbered = list(list_checkpoints(self._folder).values())
        if numbered or self._history:
            return numbered
        if self._has_best:
            return [self._best_path]
        if self._run.init_checkpoint:
            return [resolve_checkpoint(self._run.init_checkpoint)]
        raise UserError(
            f"{self._folder} has no checkpoint to score; train first, or give --init_checkpoint"
        )

    def _add(self, checkpoint: str, scored: CheckpointScores) -> None:
        entry = {
            **scored.scores,
            "global_step": checkpoint_step(checkpoint),
            "checkpoint": os.path.basename(checkpoint),
        }
        is_best = not self._history or self._is_better(entry, self.best)
        if is_best and self._history:
            # The recorded files are about to be replaced. If the run is stopped now, the record
            # without them lets it resume here.
            self._write_record(files=())
        self._history.append(entry)
        if is_best:
            if self._keeps_best:
                copy_checkpoint(checkpoint, self._best_path)
            scored.write_outputs()
        self._write_metrics(entry)
        with open_atomically(os.path.join(self._folder, "eval_results.txt")) as file:
            file.writelines(line + "\n" for line in self._text())
        # Last, because the record asserts that all of the above is done.
        self._write_record(self._files())
        scores = "  ".join(f"{name} {value:.4g}" for name, value in scored.scores.items())
        mark = " (best so far)" if is_best else ""
        tf.logging.info("%s: %s%s", entry["checkpoint"], scores, mark)

    def _files(self) -> list[str]:
        return [*self._outputs, *[f"{BEST}.index"] * self._has_best]

    def _write_record(self, files: Sequence[str]) -> None:
        record = {
            **self.best,
            "init_checkpoint": self._run.init_checkpoint or None,
            "history": self._history,
            "settings": self._settings,
            "files": {name: sha256_of(os.path.join(self._folder, name)) for name in files},
            "version": _VERSION,
        }
        write_json(os.path.join(self._folder, SCORES), record)

    def _recorded(self) -> list[dict]:
        """Returns the history of earlier scores; an empty list if all must be computed again."""
        try:
            path = os.path.join(self._folder, SCORES)
            record = read_record(path, "the record of scores", "settings")
            if record is None or record.get("version") != _VERSION:
                return []
            # Records of earlier versions lack newer flags.
            if differences(record["settings"], self._settings, self._run.defaults()):
                return []
            files, index = record.get("files", {}), f"{BEST}.index"
            if self._has_best:
                resolve_checkpoint(self._best_path)
                if change := change_in(self._folder, {index: files.get(index)}):
                    raise UserError(change)
        except UserError as e:
            tf.logging.warning("%s; scoring all checkpoints again", e)
            return []
        self._change = change_in(self._folder, {name: files.get(name) for name in self._outputs})
        return record["history"]

    def _text(self) -> Iterator[str]:
        """Yields the lines of `eval_results.txt` in the reference's format."""

        def score_lines(entry: dict) -> Iterator[str]:
            for name in sorted(entry.keys() - {"global_step", "checkpoint"}):
                yield f"{name} = {entry[name]}"

        best = self._history[0]
        for entry in self._history:
            yield from score_lines(entry)
            if entry is best or self._is_better(entry, best):
                best = entry
                if self._keeps_best:
                    yield f"saved {entry['checkpoint']} to {BEST}"
            yield f"best {self._key} = {best[self._key]}"
            yield "=" * 50
        yield from score_lines(best)
        yield f"best perf happened at step: {best['global_step']}"

    def _write_metrics(self, entry: dict) -> None:
        values = {name: value for name, value in entry.items() if isinstance(value, float)}
        step, name = entry["global_step"], entry["checkpoint"]
        curves = metrics.Curves(os.path.join(self._folder, "eval"), suffix=f".{name}")
        curves.add(step, **values)
        curves.close()
        about = {"checkpoint": name, "best_by": self._key}
        metrics.append(self._folder, metrics.SCORES, step, {**about, **values})
