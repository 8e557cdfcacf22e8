"""Predictions for the rows of a table, in blocks, and files that a killed program continues."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert.core.errors import UserError, reporting
from albert.core.files import read_object, remove_temporary_files, write_json
from albert.core.locks import exclusive
from albert.core.log import LOG
from albert.inference.answers import CONFIDENCE, PREDICTION, AskedModel, answers_to, row_of
from albert.inference.base import SpanFinder, grouped
from albert.inference.classification import TextClassifier
from albert.tables.bad_rows import BadRows
from albert.tables.extended_tables import ExtendedTable
from albert.tables.tables import Record, Table
from albert.tasks.glue.label_tables import text_of, texts_of

# The most characters of a block, and those that each row counts in addition to its own.
_MOST_CHARACTERS, _OF_ROW = 1 << 22, 1 << 10


class RowPredictor:
    """A model that predicts values of new columns, `names`, from the texts in a row.

    `columns` are those of the text, and of the second text, if any; or of question and context.
    """

    def __init__(self, model: AskedModel, columns: Sequence[str], with_probabilities: bool = False):
        self._model, self._columns, self.names = model, columns, [PREDICTION]
        if not isinstance(model, SpanFinder) and getattr(model, "labels", ()) != [None]:
            self.names.append(CONFIDENCE)
        if with_probabilities and isinstance(model, TextClassifier):
            self.names += [f"probability {label}" for label in model.labels]

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns the texts of a row; raises a `ValueError` with the reason if one is unusable."""
        if isinstance(self._model, TextClassifier) and len(self._columns) == 2:
            return texts_of(row, *self._columns)
        return tuple(text_of(row, column) for column in self._columns)

    def predict(self, rows: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
        """Returns the values of the new columns, and perhaps of more, for the texts of rows."""
        return list(map(row_of, answers_to(self._model, rows)))


def check_rows(table: Table, predictor: RowPredictor, output: ExtendedTable, bad: BadRows) -> int:
    """Returns the number of records of a table, and adds the rows without texts to `bad`.

    Raises a `UserError` if the table, or a row of the output, is not valid, or if `bad` does.
    """
    count = 0
    for record in table.records():
        count += 1
        if not table.has_cells:
            output.check_names(record.values or (), f"{table.path}, {record.location.name}")
        if not output.keeps_texts:
            output.row(record, {})
        if record.values or (record.values is not None and not table.has_cells):
            try:
                predictor.texts(record.values)
            except ValueError as e:
                bad.add(record.location, str(e))
    bad.finish()
    return count


def predicted_blocks(
    records: Iterable[Record], predictor: RowPredictor, output: ExtendedTable
) -> Iterator[tuple[int, bytes]]:
    """Yields blocks of rows with their predictions: the number of records, and their text."""

    def texts_in(record: Record) -> tuple[str, ...]:
        with contextlib.suppress(ValueError):
            return predictor.texts(record.values or {})
        # A row without prediction.
        return ()

    def size(row: tuple[Record, tuple[str, ...]]) -> int:
        return _OF_ROW + len(row[0].text) + sum(map(len, row[1]))

    pairs = ((record, texts_in(record)) for record in records)
    for block in grouped(pairs, size, _MOST_CHARACTERS):
        predicted = iter(predictor.predict([texts for _, texts in block if texts]))
        rows = (output.row(record, next(predicted) if texts else {}) for record, texts in block)
        yield len(block), b"".join(rows)


def write_resumably(
    path: str,
    made_from: Sequence[Any],
    head: bytes,
    blocks_after: Callable[[int], Iterator[tuple[int, bytes]]],
) -> None:
    """Writes blocks to a file; if that was interrupted with the same `made_from`, continues.

    Until the end, the blocks are in `path.partial`, and their number is in `path.partial.json`.

    Args:
      blocks_after: yields the blocks after a number of records, with theirs.
    """
    partial, progress = path + ".partial", path + ".partial.json"
    advice = "; correct this, and repeat the command, which resumes"
    writing = functools.partial(reporting, f"{partial} cannot be written", advice)
    with exclusive(path, waits=False):
        count, size = _begun(path, made_from) if os.path.exists(progress) else (0, 0)
        if not count:
            # It must not describe what another run writes from now on.
            with contextlib.suppress(FileNotFoundError):
                os.remove(progress)
        with writing(), open(partial, "r+b" if count else "wb") as file:
            file.truncate(size)
            file.seek(size)
            file.write(b"" if count else head)
        for number, text in blocks_after(count):
            with writing(), open(partial, "ab") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            count, size = count + number, os.path.getsize(partial)
            state = {"records": count, "bytes": size, "made_from": made_from}
            write_json(progress, state, indent=None)
        os.replace(partial, path)
        with contextlib.suppress(FileNotFoundError):
            os.remove(progress)
        remove_temporary_files(progress)


def _begun(path: str, made_from: Sequence[Any]) -> tuple[int, int]:
    """Returns the number of records that are written, and their bytes; 0, 0 to start again."""
    with contextlib.suppress(UserError, LookupError, TypeError, OSError):
        state = read_object(path + ".partial.json", "progress")
        is_same = state["made_from"] == made_from
        if is_same and os.path.getsize(path + ".partial") >= state["bytes"]:
            LOG.info("Resuming %s after %d lines or rows", path, state["records"])
            return state["records"], state["bytes"]
    why = "the input, the model or an option changed, or its partial file is damaged"
    LOG.info("Starting %s again: %s", path, why)
    return 0, 0
