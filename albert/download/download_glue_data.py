"""Downloads GLUE data to one folder per task and checks it against the published hashes."""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.download.archive import ArchiveError, install, new_folder
from albert.download.command import add_option, new_parser, run_command
from albert.download.fetch import fetch, making
from albert.download.published import PUBLISHED

_ZIPPED = ("CoLA", "SST-2", "QQP", "STS-B", "MNLI", "QNLI", "RTE", "WNLI")
# The keys are the folders of the tasks.
_ARCHIVES = {task: f"{task}.zip" for task in _ZIPPED}
_ARCHIVES |= {"QQP": "QQP-clean.zip", "QNLI": "QNLIv2.zip"}
TASKS = [*_ARCHIVES, "diagnostic", "MRPC"]
_PARTS = {
    "MNLI": ["train", *(f"{p}_{k}matched" for p in ("dev", "test") for k in ("", "mis"))],
    "diagnostic": ["diagnostic"],
}
_MRPC_FILES = ["msr_paraphrase_train.txt", "msr_paraphrase_test.txt"]
_MRPC_DEV_IDS = "mrpc_dev_ids.tsv"
# Without GLUE's list, every tenth pair is for development; GLUE's list also has about a tenth.
_DEV_EVERY = 10
_COLUMNS = 5
# Values of --mrpc_dev.
_OF_GLUE, _OF_TEST = "glue", "test"

_EXAMPLE = """example:
  %(prog)s --data_dir data/glue --tasks MRPC,CoLA

A task whose folder already exists is skipped.
"""


def download_task(
    task: str,
    data_dir: Path,
    mirror: str | None,
    path_to_mrpc: Path | None,
    mrpc_dev: str = _OF_GLUE,
) -> None:
    """Downloads a task's files to its folder in `data_dir`; keeps a folder that already exists.

    `mirror` is the address of a folder that has all files, and `path_to_mrpc` a folder with MRPC's
    two files; None for the publishers' addresses. `mrpc_dev` is a value of --mrpc_dev. Raises a
    `UserError` if a file cannot be downloaded or written, or if it or its content is missing.
    """
    target = data_dir / task
    with making(target):
        if os.path.lexists(target):
            if missing := _missing_file(target):
                raise UserError(f"{target} already exists, but has no {missing}; move it away")
            LOG.info("Kept %s, which already exists", target)
        elif task in _ARCHIVES:
            file = PUBLISHED[_ARCHIVES[task]].on(mirror)
            archive = data_dir / _ARCHIVES[task]
            install(file.url, archive, target, _keep_parts, sha256=file.sha256, size=file.size)
        else:
            with new_folder(target) as folder:
                if task == "MRPC":
                    _make_mrpc(folder, mirror, path_to_mrpc, mrpc_dev)
                else:
                    _fetch("AX.tsv", folder / "diagnostic.tsv", mirror)
            LOG.info("%s is ready", target)


def _fetch(name: str, path: Path, mirror: str | None) -> None:
    file = PUBLISHED[name].on(mirror)
    fetch(file.url, path, file.sha256, file.size)


def _missing_file(folder: Path) -> str | None:
    """Returns the first file that a task's folder lacks, or None."""
    names = [f"{part}.tsv" for part in _PARTS.get(folder.name, ["train", "dev", "test"])]
    return next((name for name in names if not (folder / name).is_file()), None)


def _keep_parts(folder: Path, _: str) -> None:
    """Removes everything except .tsv files, such as the original files, which are large."""
    if missing := _missing_file(folder):
        raise ArchiveError(f"lacks {folder.name}/{missing}")
    for item in folder.iterdir():
        if item.is_dir():
            shutil.rmtree(item)
        elif item.suffix != ".tsv":
            item.unlink()


def _make_mrpc(folder: Path, mirror: str | None, path_to_mrpc: Path | None, dev: str) -> None:
    """Converts MRPC to GLUE's layout, with GLUE's list of development pairs if available."""
    if path_to_mrpc is None:
        for name in _MRPC_FILES:
            _fetch(name, folder / name, mirror)
    train, test = (_read_pairs((path_to_mrpc or folder) / name) for name in _MRPC_FILES)
    if dev == _OF_TEST:
        _write_glue_layout({"train.tsv": train, "dev.tsv": test}, test, folder)
        return
    ids_file = folder / "dev_ids.tsv"
    candidates = [path_to_mrpc / n for n in (_MRPC_DEV_IDS, ids_file.name) if path_to_mrpc]
    dev_list = next((path for path in candidates if path.is_file()), None)
    try:
        if dev_list:
            shutil.copyfile(dev_list, ids_file)
        else:
            _fetch(_MRPC_DEV_IDS, ids_file, mirror)
    except UserError as error:
        if path_to_mrpc is None:
            raise
        LOG.warning(
            "GLUE's list of development pairs cannot be downloaded (%s). Every tenth pair "
            "is used instead, so scores are not comparable with published ones. To get GLUE's "
            "split, put %s into %s, remove the folder %s and run again; --mrpc_dev=test scores on "
            "the test file instead",
            *(error, _MRPC_DEV_IDS, path_to_mrpc, folder.name),
        )
    parts = _split(train, ids_file if ids_file.exists() else None)
    _write_glue_layout(parts, test, folder)


def _read_pairs(path: Path) -> list[list[str]]:
    """Returns the header and the rows of an MRPC file; raises a `UserError` if it is not valid."""
    raw = _read_rows(path)
    rows = [row if len(row) == _COLUMNS else _put_together(row) for row in raw]
    for line, row in enumerate(rows, start=1):
        if len(row) != _COLUMNS:
            raise UserError(f"{path}, line {line}: has {len(row)} columns instead of {_COLUMNS}")
    if len(rows) < 2:
        raise UserError(f"{path} has no pairs")
    if mended := sum(map(list.__ne__, raw, rows)):
        LOG.warning(
            "%s: %d rows had tabs instead of commas in quoted texts; joined the parts and removed "
            "the quotation marks around texts",
            *(path, mended),
        )
        return [list(map(_unquoted, row)) for row in rows]
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


def _unquoted(text: str) -> str:
    """Returns a text without the quoting of CSV, if it has that."""
    quoted = re.fullmatch('"((?:[^"]|"")*)"', text)
    return quoted[1].replace('""', '"') if quoted else text


def _read_rows(path: Path) -> list[list[str]]:
    """Returns the columns of each line; quotation marks have no special meaning."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8") from error
    return [line.split("\t") for line in text.rstrip("\n").split("\n")]


def _split(train: list[list[str]], ids_file: Path | None) -> dict[str, list[list[str]]]:
    """Returns the rows of train.tsv, and of dev.tsv as GLUE's list of pairs defines it if given."""
    header, *pairs = train
    ids = {tuple(columns[:2]) for columns in _read_rows(ids_file)} if ids_file else None
    parts: dict[str, list[list[str]]] = {"train.tsv": [header], "dev.tsv": [header]}
    for number, pair in enumerate(pairs, start=1):
        is_dev = number % _DEV_EVERY == 0 if ids is None else tuple(pair[1:3]) in ids
        parts["dev.tsv" if is_dev else "train.tsv"].append(pair)
    for name, rows in parts.items():
        if len(rows) < 2:
            raise UserError(f"no pair of MRPC's training file remains for {name}; check the files")
    return parts


def _write_glue_layout(
    parts: dict[str, list[list[str]]], test: list[list[str]], folder: Path
) -> None:
    """Writes the rows of train.tsv and dev.tsv, and test.tsv."""
    for name, rows in parts.items():
        _write(folder / name, rows)
    numbered = [[str(number), *pair[1:]] for number, pair in enumerate(test[1:])]
    _write(folder / "test.tsv", [["index", *test[0][1:]], *numbered])


def _write(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def _task_names(text: str) -> list[str]:
    """Parses task names separated by commas, or "all"; an argparse type."""
    known = {name.lower(): name for name in TASKS} | {"sst": "SST-2", "sts": "STS-B"}
    if text.lower() == "all":
        return TASKS
    names = [name.strip().lower() for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(
            f"unknown task {unknown[0]!r}; use all, or some of {', '.join(TASKS)}"
        )
    return [known[name] for name in names]


def _parser(program: str | None) -> argparse.ArgumentParser:
    parser = new_parser(program, __doc__, _EXAMPLE)
    add_option(parser, "data_dir", default=Path("glue_data"))
    text = f"all, or some of {', '.join(TASKS)}, separated by commas (default: all)"
    parser.add_argument("--tasks", type=_task_names, default="all", metavar="NAMES", help=text)
    text = f"folder with {' and '.join(_MRPC_FILES)} (default: download them)"
    parser.add_argument("--path_to_mrpc", metavar="DIR", help=text)
    text = (
        "development set of MRPC: GLUE's list of training pairs, or the labeled test file, which "
        "leaves all training pairs for training (default: %(default)s)"
    )
    choices = _OF_GLUE, _OF_TEST
    parser.add_argument("--mrpc_dev", choices=choices, default=_OF_GLUE, help=text)
    add_option(parser, "base_url")
    return parser


def main(argv: Sequence[str] | None = None, program: str | None = None) -> None:
    """Downloads the tasks that a command line names; by default, this process's."""
    args = _parser(program).parse_args(argv)
    mrpc = Path(args.path_to_mrpc) if args.path_to_mrpc else None
    for task in args.tasks:
        download_task(task, args.data_dir, args.base_url, mrpc, args.mrpc_dev)


if __name__ == "__main__":
    sys.exit(run_command(main))
