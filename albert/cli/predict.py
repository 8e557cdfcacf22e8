"""Labels the rows of a file with a trained model.

  albert predict MODEL reviews.csv                     writes reviews.predicted.csv
  albert predict MODEL reviews.jsonl --output=labeled.csv
  cat reviews.csv | albert predict MODEL - > labeled.csv

FILE is CSV, TSV, JSON Lines, a JSON array of rows or, if pyarrow is installed, Parquet or Arrow; if
its name ends in .txt, each line is a text. The file may be compressed with gzip. The output has the
same rows with the columns `prediction` and `confidence`. The model reads the columns with which it
was trained: one or two texts, or `context` and `question` for a SQuAD model. After an interruption,
the same command resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from albert.cli import require_standard_output
from albert.cli.model_flags import add_model_flags, model_of
from albert.core import signals
from albert.core.arguments import Parser
from albert.core.errors import FlagError, UserError
from albert.core.files import check_new, check_readable, content_of
from albert.core.log import LOG, progress_bar
from albert.tables.bad_rows import ERROR, ON_BAD_ROW, BadRows
from albert.tables.extended_tables import ExtendedTable, ending_of, usual_ending
from albert.tables.tables import TEXT, Table, columns, open_table
from albert.tasks.glue.label_tables import find_columns
from albert.tasks.glue.settings import TableSettings

# The help does not need TensorFlow.
if TYPE_CHECKING:
    from albert.inference.answers import AskedModel

_STANDARD = "-"


def parse(argv: list[str]) -> argparse.Namespace:
    """Parses a command line; raises a `FlagError` if the arguments are invalid."""
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
    add("model", metavar="MODEL", help="export, --output_dir of a run, or folder of transformers")
    add("file", metavar="FILE", help="file with the rows to label; - reads standard input")
    add(
        "--output",
        metavar="FILE",
        help="new file, whose name ends in .csv, .tsv or .jsonl; - writes to standard output "
        "(default: FILE with .predicted before its ending)",
    )
    add("--text_column", metavar="NAME", help="column of the text (default: that of the training)")
    add(
        "--text_b_column",
        metavar="NAME",
        help="column of the second text of a pair (default: that of the training)",
    )
    add("--probabilities", action="store_true", help="add the probability of every label")
    add(
        "--on_bad_row",
        choices=ON_BAD_ROW,
        default=ERROR,
        help="for rows without text: end with an error, or leave the prediction empty",
    )
    add_model_flags(parser)
    return parser.parse_args(argv[1:])


def main(args: argparse.Namespace) -> None:
    """Writes the predictions; raises a `UserError` if the model or the file is unusable."""
    with contextlib.ExitStack() as stack:
        path = args.file
        if path == _STANDARD:
            path = os.path.join(
                stack.enter_context(tempfile.TemporaryDirectory()), "standard input"
            )
            with open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        check_readable(path, "FILE")
        is_text = ending_of(path) == ".txt"
        table = Table(path, TEXT, ["text"]) if is_text else open_table(path)
        _predict(args, table, _output(args, table))


def _output(args: argparse.Namespace, table: Table) -> str:
    """Returns the name of the output; raises a `UserError` if it cannot be written."""
    name = os.path.splitext(table.path.removesuffix(".gz"))[0]
    default = f"{name}.predicted{usual_ending(table)}"
    output = args.output or (_STANDARD if args.file == _STANDARD else default)
    if output == _STANDARD:
        require_standard_output()
    else:
        check_new(output)
    return output


def _predict(args: argparse.Namespace, table: Table, output: str) -> None:
    from albert import inference
    from albert.checkpoints.checkpoint_files import content_of_checkpoint
    from albert.inference import rows
    from albert.inference.answers import CHOOSES
    from albert.inference.classification import OptionChooser
    from albert.records.cached_file import Snapshot

    model, snapshot = inference.load_model(*model_of(args)), Snapshot.of([table.path])
    if isinstance(model, OptionChooser):
        raise FlagError(f"{args.model} {CHOOSES}")
    names = _columns(args, model, table)
    if table.delimiter == TEXT:
        table = table._replace(columns=names)
    predictor = rows.RowPredictor(model, names, args.probabilities)
    ending = usual_ending(table) if output == _STANDARD else os.path.splitext(output)[1].lower()
    extended = ExtendedTable(table, ending, predictor.names)
    total = rows.check_rows(table, predictor, extended, BadRows(table.path, args.on_bad_row))

    def blocks(first: int) -> Iterator[tuple[int, bytes]]:
        records = table.records()
        with progress_bar(total, "rows", "rows") as bar, _each_warning_once():
            bar.update(sum(1 for _ in zip(range(first), records, strict=False)))
            for count, text in rows.predicted_blocks(records, predictor, extended):
                if Snapshot.of([table.path]) != snapshot:
                    raise UserError(f"{table.path} changed while it was read; repeat the command")
                yield count, text
                bar.update(count)

    if output == _STANDARD:
        sys.stdout.buffer.write(extended.head())
        for _, text in blocks(0):
            sys.stdout.buffer.write(text)
        return
    # Standard output cannot be continued.
    signals.allow_resuming()
    folder, options = model.folder, [names, args.probabilities, ending]
    made_from = [content_of(table.path), content_of_checkpoint(folder.checkpoint), options]
    made_from += [repr(folder.description), folder.engine, folder.precision]
    rows.write_resumably(output, made_from, extended.head(), blocks)
    LOG.info("Wrote the predictions to %s", output)


@contextlib.contextmanager
def _each_warning_once() -> Iterator[None]:
    """Shows only the first warning of a kind, such as truncated texts, instead of each block's."""
    shown = set[str]()

    def is_new(record: logging.LogRecord) -> bool:
        is_known = record.msg in shown
        shown.add(record.msg)
        return not is_known

    LOG.addFilter(is_new)
    try:
        yield
    finally:
        LOG.removeFilter(is_new)


def _columns(args: argparse.Namespace, model: AskedModel, table: Table) -> list[str]:
    """Returns the columns that the model reads; raises a `UserError` if they do not exist."""
    from albert.inference.base import SpanFinder
    from albert.inference.classification import TextClassifier

    if args.probabilities and (not isinstance(model, TextClassifier) or model.labels == [None]):
        raise FlagError(f"{args.model} has no labels with probabilities: remove --probabilities")
    if not isinstance(model, TextClassifier) and args.text_b_column:
        raise FlagError(f"{args.model} reads no second text: remove --text_b_column")
    about, names = model.folder.description, ["question", "context"]
    if isinstance(model, TextClassifier):
        described = args.text_column or about.get("text_column")
        usual = TableSettings(text_column="text")
        if not described and table.delimiter != TEXT:
            # A folder of transformers does not say how it was trained.
            usual = find_columns(table, TableSettings(), (), is_labeled=False)
        names = [described or usual.text_column]
        second = args.text_b_column or about.get("text_b_column", usual.text_b_column)
        # The second text is optional unless somebody has named its column.
        is_named = second != "text_b" or args.text_b_column or "text_b_column" in about
        if second and (is_named or second in table.columns):
            names.append(second)
    elif isinstance(model, SpanFinder):
        names = [args.text_column or "text"]
    elif args.text_column:
        raise FlagError(f"{args.model} reads context and question: remove --text_column")
    for name in names[table.delimiter == TEXT :]:
        if name not in table.columns:
            known = columns(table.columns)
            flag = "" if "question" in names else "; pass --text_column for another name"
            raise UserError(f"{table.path} has no column {name}; found {known}{flag}")
    return names
