"""The Microsoft Research Paraphrase Corpus, from the files it comes in to GLUE's layout."""

import logging
from collections.abc import Iterator
from pathlib import Path

from download.command import FetchError, writing

logger = logging.getLogger(__name__)

# Without GLUE's list the last of every ten pairs is for development; GLUE takes a tenth too.
_DEV_EVERY = 10
_COLUMNS = 5


def read_pairs(path: Path) -> list[list[str]]:
    """Returns the rows of a file of MRPC, the header first, five columns each.

    Raises:
        FetchError: the file cannot be read, is not UTF-8, has no pairs or another form.
    """
    rows, mended = [], 0
    for line, columns in enumerate(_read_rows(path), start=1):
        whole = columns if len(columns) == _COLUMNS else _put_together(columns)
        if len(whole) != _COLUMNS:
            raise FetchError(f"{path}, line {line}: {len(columns)} columns, {_COLUMNS} are needed")
        mended += whole is not columns
        rows.append(whole)
    if len(rows) < 2:
        raise FetchError(f"{path} has no pairs")
    if mended:
        logger.warning(
            "warning: %s: %d rows had tabs for the commas of quoted texts; they are put together",
            path,
            mended,
        )
    return rows


def _put_together(columns: list[str]) -> list[str]:
    """Joins the pieces of quoted texts that were cut at commas, as in some copies of MRPC.

    A quotation mark inside such a text is doubled, so that a whole one has an even number.
    """
    texts, is_open = [], False
    for column in columns:
        if is_open:
            texts[-1] += f",{column}"
        else:
            texts.append(column)
        is_open = texts[-1].count('"') % 2 == 1
    return texts


def _read_rows(path: Path) -> Iterator[list[str]]:
    """Yields the columns of every line; a quotation mark is a character like any other."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FetchError(f"cannot read {path}: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FetchError(f"{path}, line {line}: not UTF-8") from error
    for line in text.rstrip("\r\n").split("\n"):
        yield line.rstrip("\r").split("\t")


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
        FetchError: no pair would be left for training or for development.
    """
    header, *pairs = train
    ids = {tuple(columns[:2]) for columns in _read_rows(ids_file)} if ids_file else None
    parts = {"train.tsv": [], "dev.tsv": []}
    for number, pair in enumerate(pairs, start=1):
        is_dev = number % _DEV_EVERY == 0 if ids is None else tuple(pair[1:3]) in ids
        parts["dev.tsv" if is_dev else "train.tsv"].append(pair)
    for name, chosen in parts.items():
        if not chosen:
            raise FetchError(f"no pair of MRPC's training file would be left for {name}")
        _write(folder / name, header, chosen)
    header, *pairs = test
    numbered = [[str(number), *pair[1:]] for number, pair in enumerate(pairs)]
    _write(folder / "test.tsv", ["index", *header[1:]], numbered)


def _write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with writing(path), open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(columns) + "\n" for columns in [header, *rows])
