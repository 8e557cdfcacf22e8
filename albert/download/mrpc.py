"""Conversion of the Microsoft Research Paraphrase Corpus (MRPC) to GLUE's layout."""

from pathlib import Path

from albert.core.errors import UserError
from albert.core.log import LOG

# Without GLUE's list, every tenth pair is for development; GLUE's list also has about a tenth.
_DEV_EVERY = 10
_COLUMNS = 5


def read_pairs(path: Path) -> list[list[str]]:
    """Returns the rows of an MRPC file, beginning with the header, with five columns each.

    Raises a `UserError` if the file is not UTF-8, has no pairs, or has another format.
    """
    raw = _read_rows(path)
    rows = [row if len(row) == _COLUMNS else _put_together(row) for row in raw]
    for line, row in enumerate(rows, start=1):
        if len(row) != _COLUMNS:
            raise UserError(f"{path}, line {line}: has {len(row)} columns instead of {_COLUMNS}")
    if len(rows) < 2:
        raise UserError(f"{path} has no pairs")
    if mended := sum(map(list.__ne__, raw, rows)):
        LOG.warning(
            "%s: %d rows had tabs instead of commas in quoted texts; joined the parts",
            *(path, mended),
        )
    return rows


def _put_together(columns: list[str]) -> list[str]:
    """Joins the parts of quoted texts that were split at commas, as in some copies of MRPC."""
    # Quotation marks inside such a text are doubled, so a whole text has an even number of them.
    texts: list[str] = []
    for column in columns:
        if texts and texts[-1].count('"') % 2 == 1:
            texts[-1] += f",{column}"
        else:
            texts.append(column)
    return texts


def _read_rows(path: Path) -> list[list[str]]:
    """Returns the columns of each line; quotation marks have no special meaning."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8") from error
    return [line.split("\t") for line in text.rstrip("\n").split("\n")]


def write_glue_layout(
    train: list[list[str]], test: list[list[str]], ids_file: Path | None, folder: Path
) -> None:
    """Writes train.tsv, dev.tsv and test.tsv from results of `read_pairs`.

    `ids_file` is GLUE's list of the development set; without it, every tenth pair is in it. Raises
    a `UserError` if no pair would remain for one of the sets.
    """
    header, *pairs = train
    ids = {tuple(columns[:2]) for columns in _read_rows(ids_file)} if ids_file else None
    parts: dict[str, list[list[str]]] = {"train.tsv": [], "dev.tsv": []}
    for number, pair in enumerate(pairs, start=1):
        is_dev = number % _DEV_EVERY == 0 if ids is None else tuple(pair[1:3]) in ids
        parts["dev.tsv" if is_dev else "train.tsv"].append(pair)
    for name, chosen in parts.items():
        if not chosen:
            raise UserError(f"no pair of MRPC's training file remains for {name}; check the files")
        _write(folder / name, [header, *chosen])
    numbered = [[str(number), *pair[1:]] for number, pair in enumerate(test[1:])]
    _write(folder / "test.tsv", [["index", *test[0][1:]], *numbered])


def _write(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
