"""The Microsoft Research Paraphrase Corpus, from the files it comes in to GLUE's layout."""

import logging
from pathlib import Path

from albert.core.errors import UserError

logger = logging.getLogger(__name__)

# Without GLUE's list the last of every ten pairs is for development; GLUE takes a tenth too.
_DEV_EVERY = 10
_COLUMNS = 5


def read_pairs(path: Path) -> list[list[str]]:
    """Returns the rows of a file of MRPC, the header first, five columns each.

    Raises:
        UserError: the file is not UTF-8, has no pairs or another form.
        OSError: it cannot be read.
    """
    found = _read_rows(path)
    rows = [row if len(row) == _COLUMNS else _put_together(row) for row in found]
    for line, row in enumerate(rows, start=1):
        if len(row) != _COLUMNS:
            raise UserError(f"{path}, line {line}: {len(row)} columns, {_COLUMNS} are needed")
    if len(rows) < 2:
        raise UserError(f"{path} has no pairs")
    if mended := sum(map(list.__ne__, found, rows)):
        logger.warning(
            "warning: %s: %d rows had tabs for the commas of quoted texts; they are put together",
            *(path, mended),
        )
    return rows


def _put_together(columns: list[str]) -> list[str]:
    """Joins the pieces of quoted texts that were cut at commas, as in some copies of MRPC.

    A quotation mark inside such a text is doubled, so that a whole one has an even number.
    """
    texts: list[str] = []
    for column in columns:
        if texts and texts[-1].count('"') % 2 == 1:
            texts[-1] += f",{column}"
        else:
            texts.append(column)
    return texts


def _read_rows(path: Path) -> list[list[str]]:
    """Returns the columns of every line; a quotation mark is a character like any other."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8") from error
    return [line.split("\t") for line in text.rstrip("\n").split("\n")]


def write_glue_layout(
    train: list[list[str]], test: list[list[str]], ids_file: Path | None, folder: Path
) -> None:
    """Writes train.tsv, dev.tsv and test.tsv into `folder`.

    Args:
        train, test: from `read_pairs`.
        ids_file: GLUE's list of the training pairs that are for development; None for every
            tenth.
        folder: where to.

    Raises:
        UserError: no pair would be left for training or for development.
    """
    header, *pairs = train
    ids = {tuple(columns[:2]) for columns in _read_rows(ids_file)} if ids_file else None
    parts: dict[str, list[list[str]]] = {"train.tsv": [], "dev.tsv": []}
    for number, pair in enumerate(pairs, start=1):
        is_dev = number % _DEV_EVERY == 0 if ids is None else tuple(pair[1:3]) in ids
        parts["dev.tsv" if is_dev else "train.tsv"].append(pair)
    for name, chosen in parts.items():
        if not chosen:
            raise UserError(f"no pair of MRPC's training file would be left for {name}")
        _write(folder / name, [header, *chosen])
    numbered = [[str(number), *pair[1:]] for number, pair in enumerate(test[1:])]
    _write(folder / "test.tsv", [["index", *test[0][1:]], *numbered])


def _write(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
