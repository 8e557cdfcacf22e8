"""MRPC in GLUE's layout, made from the files that Microsoft publishes."""

import contextlib
import csv
import shutil
from pathlib import Path

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.download.fetch import fetch_published

FILES = ["msr_paraphrase_train.txt", "msr_paraphrase_test.txt"]
_DEV_IDS = "mrpc_dev_ids.tsv"
_COLUMNS = 5


def make_mrpc(folder: Path, mirror: str | None, path_to_mrpc: Path | None) -> None:
    """Writes MRPC in GLUE's layout to a folder, with GLUE's list of development pairs.

    `mirror` is the address of a folder that has all files, and `path_to_mrpc` a folder with MRPC's
    two files; None for the publishers' addresses. With such a folder, but no list, the labeled test
    file is for development. Raises a `UserError` if a file cannot be downloaded or is not as
    expected.
    """
    if path_to_mrpc is None:
        for name in FILES:
            fetch_published(name, folder / name, mirror)
    train, test = (_read_pairs((path_to_mrpc or folder) / name) for name in FILES)
    ids_file = folder / "dev_ids.tsv"
    candidates = [path_to_mrpc / n for n in (_DEV_IDS, ids_file.name) if path_to_mrpc]
    dev_list = next((path for path in candidates if path.is_file()), None)
    parts = {"train.tsv": train, "dev.tsv": test}
    try:
        if dev_list:
            shutil.copyfile(dev_list, ids_file)
        else:
            fetch_published(_DEV_IDS, ids_file, mirror)
    except UserError as error:
        if path_to_mrpc is None:
            raise
        LOG.warning(
            "GLUE's list of development pairs cannot be downloaded (%s). The labeled test file is "
            "used instead, so scores are not comparable with GLUE's. To get GLUE's split, put %s "
            "into %s, remove the folder MRPC and run again",
            *(error, _DEV_IDS, path_to_mrpc),
        )
    else:
        parts = _split(train, ids_file)
    for name, rows in parts.items():
        _write(folder / name, rows)
    numbered = [[str(number), *pair[1:]] for number, pair in enumerate(test[1:])]
    _write(folder / "test.tsv", [["index", *test[0][1:]], *numbered])


def _read_pairs(path: Path) -> list[list[str]]:
    """Returns the header and the rows of an MRPC file; raises a `UserError` if it is not valid."""
    rows = _read_rows(path)
    if any(len(row) != _COLUMNS for row in rows):
        # Some copies were made of CSV by putting tabs in place of all commas, also of those in
        # quoted texts. A text that is quoted to the end of the file is too long for `csv`.
        with contextlib.suppress(csv.Error):
            quoted = csv.reader(("\t".join(row) for row in rows), delimiter="\t")
            rows = [[text.replace("\t", ",") for text in row] for row in quoted]
            message = "%s has tabs instead of commas in quoted texts; read them as commas"
            LOG.warning(message, path)
    for line, row in enumerate(rows, start=1):
        if len(row) != _COLUMNS:
            raise UserError(f"{path}, line {line}: has {len(row)} columns instead of {_COLUMNS}")
    if len(rows) < 2:
        raise UserError(f"{path} has no pairs")
    return rows


def _read_rows(path: Path) -> list[list[str]]:
    """Returns the columns of each line; quotation marks have no special meaning."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8") from error
    return [line.split("\t") for line in text.rstrip("\n").split("\n")]


def _split(train: list[list[str]], ids_file: Path) -> dict[str, list[list[str]]]:
    """Returns the rows of train.tsv, and of dev.tsv as GLUE's list of pairs defines it."""
    header, *pairs = train
    ids = {tuple(columns[:2]) for columns in _read_rows(ids_file)}
    parts: dict[str, list[list[str]]] = {"train.tsv": [header], "dev.tsv": [header]}
    for pair in pairs:
        parts["dev.tsv" if tuple(pair[1:3]) in ids else "train.tsv"].append(pair)
    for name, rows in parts.items():
        if len(rows) < 2:
            raise UserError(f"no pair of MRPC's training file remains for {name}; check the files")
    return parts


def _write(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
