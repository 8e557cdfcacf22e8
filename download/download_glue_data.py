"""Fetches the data of GLUE's tasks into a folder a task, checked against their published hashes."""

import argparse
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Run as a script, Python looks for modules in this file's folder only.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from download.command import (
    FetchError,
    add_version,
    run_command,
    seconds,
    sync_folder,
    web_address,
    writing,
)
from download.download_dataset import DataFile
from download.fetch import fetch, join_url
from download.mrpc import read_pairs, write_glue_layout

logger = logging.getLogger(__name__)

GLUE_URL = "https://dl.fbaipublicfiles.com/glue/data/"
MRPC_URL = "https://dl.fbaipublicfiles.com/senteval/senteval_data/"
_PARTS = ("train.tsv", "dev.tsv", "test.tsv")
_MNLI_PARTS = (
    "train.tsv",
    *(f"{part}_{kind}.tsv" for part in ("dev", "test") for kind in ("matched", "mismatched")),
)


class Task(NamedTuple):
    """A task that comes as one file: its folder, the files to be in it, what is published."""

    folder: str
    files: tuple[str, ...]
    published: DataFile


TASKS = {
    "CoLA": Task(
        "CoLA",
        _PARTS,
        DataFile(
            "CoLA.zip",
            "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
            376_971,
        ),
    ),
    "SST": Task(
        "SST-2",
        _PARTS,
        DataFile(
            "SST-2.zip",
            "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
            7_439_277,
        ),
    ),
    "QQP": Task(
        "QQP",
        _PARTS,
        DataFile(
            "QQP-clean.zip",
            "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
            41_696_084,
        ),
    ),
    "STS": Task(
        "STS-B",
        _PARTS,
        DataFile(
            "STS-B.zip",
            "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
            802_872,
        ),
    ),
    "MNLI": Task(
        "MNLI",
        _MNLI_PARTS,
        DataFile(
            "MNLI.zip",
            "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
            312_783_507,
        ),
    ),
    "QNLI": Task(
        "QNLI",
        _PARTS,
        DataFile(
            "QNLIv2.zip",
            "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
            10_627_589,
        ),
    ),
    "RTE": Task(
        "RTE",
        _PARTS,
        DataFile(
            "RTE.zip",
            "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
            697_150,
        ),
    ),
    "WNLI": Task(
        "WNLI",
        _PARTS,
        DataFile(
            "WNLI.zip",
            "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
            28_999,
        ),
    ),
    "diagnostic": Task(
        "diagnostic",
        ("diagnostic.tsv",),
        DataFile(
            "AX.tsv",
            "0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
            222_257,
        ),
    ),
}
MRPC_TRAIN = DataFile(
    "msr_paraphrase_train.txt",
    "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
    1_047_044,
)
MRPC_TEST = DataFile(
    "msr_paraphrase_test.txt",
    "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
    441_275,
)
MRPC_DEV_IDS = DataFile(
    "mrpc_dev_ids.tsv",
    "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
    6_222,
)

_EXAMPLE = """example:
  python3 download/download_glue_data.py --data_dir data/glue --tasks MRPC,CoLA

A task whose folder is there already is left as it is. A run that was stopped goes on where it was
when the same command is given again.
"""


class Source(NamedTuple):
    """Where files come from: a mirror that has them all or None, and how failures are retried."""

    mirror: str | None
    retry_wait: float

    def fetch(self, file: DataFile, path: Path, published_at: str = GLUE_URL) -> None:
        """Fetches a file, checked, into `path`."""
        url = join_url(self.mirror or published_at, file.name)
        fetch(url, path, file.sha256, file.size, retry_wait=self.retry_wait)


def download_task(task: Task, data_dir: Path, source: Source) -> None:
    """Brings a task's files into its folder below `data_dir`.

    Raises:
        FetchError: the file cannot be fetched, lacks what it should hold, or another folder of
            that name is there.
    """
    if _is_there(data_dir / task.folder, task.files):
        return
    fetched = data_dir / task.published.name
    source.fetch(task.published, fetched)
    with _new_folder(data_dir / task.folder) as folder:
        if fetched.suffix == ".zip":
            _unpack(fetched, task.folder, folder)
        else:
            shutil.copyfile(fetched, folder / task.files[0])
        missing = [name for name in task.files if not (folder / name).is_file()]
        if missing:
            raise FetchError(f"{fetched}: {task.folder}/{missing[0]} is not in it")
    fetched.unlink()


def _unpack(archive: Path, top: str, folder: Path) -> None:
    """Unpacks the .tsv files right below an archive's folder `top`; the hash was checked."""
    try:
        with zipfile.ZipFile(archive) as content:
            for name in content.namelist():
                if Path(name).parent == Path(top) and name.endswith(".tsv"):
                    with content.open(name) as source, open(folder / Path(name).name, "wb") as file:
                        shutil.copyfileobj(source, file)
    except zipfile.BadZipFile as error:
        raise FetchError(f"{archive}: damaged, or no zip archive ({error})") from error


def download_mrpc(data_dir: Path, source: Source, path_to_mrpc: Path | None) -> None:
    """Brings MRPC into GLUE's layout below `data_dir`.

    The pairs that GLUE keeps for development are in a list of its own, which is fetched unless it
    is in `path_to_mrpc` too. Where files are given and the list cannot be had, every tenth pair
    is taken instead, with a warning.

    Args:
        data_dir: of all tasks.
        source: where files come from.
        path_to_mrpc: folder with `msr_paraphrase_train.txt` and `msr_paraphrase_test.txt`; None
            to fetch them.

    Raises:
        FetchError: a file cannot be fetched, or is not as it should be.
    """
    if _is_there(data_dir / "MRPC", _PARTS):
        return
    with _new_folder(data_dir / "MRPC") as folder:
        if path_to_mrpc is None:
            for file in (MRPC_TRAIN, MRPC_TEST):
                source.fetch(file, folder / file.name, MRPC_URL)
        train, test = (
            read_pairs((path_to_mrpc or folder) / file.name) for file in (MRPC_TRAIN, MRPC_TEST)
        )
        ids_file = folder / "dev_ids.tsv"
        try:
            _bring_dev_ids(ids_file, source, path_to_mrpc)
        except FetchError as error:
            if path_to_mrpc is None:
                raise
            logger.warning(
                "warning: GLUE's list of development pairs cannot be had (%s). Every tenth pair is "
                "taken instead: scores are not comparable with published ones. For GLUE's own "
                "split put %s into %s, remove %s and run again",
                error,
                MRPC_DEV_IDS.name,
                path_to_mrpc,
                data_dir / "MRPC",
            )
        write_glue_layout(train, test, ids_file if ids_file.exists() else None, folder)


def _bring_dev_ids(ids_file: Path, source: Source, path_to_mrpc: Path | None) -> None:
    given = [path_to_mrpc / n for n in (MRPC_DEV_IDS.name, ids_file.name) if path_to_mrpc]
    found = next((path for path in given if path.is_file()), None)
    if found:
        shutil.copyfile(found, ids_file)
    else:
        source.fetch(MRPC_DEV_IDS, ids_file)


def _is_there(folder: Path, files: tuple[str, ...]) -> bool:
    """Whether the folder is there with these files.

    Raises:
        FetchError: it is there and lacks one.
    """
    if not os.path.lexists(folder):
        return False
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise FetchError(f"{folder} is there already, but has no {missing[0]}; move it away")
    logger.info("%s: already there; kept", folder)
    return True


@contextlib.contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Yields a folder to fill, which gets its name when the block ends well, else is removed."""
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        # One level down, because mkdir, unlike mkdtemp, gives a folder the usual mode.
        folder = scratch / target.name
        with writing(folder):
            folder.mkdir()
            yield folder
            os.rename(folder, target)
            sync_folder(target.parent)
        logger.info("%s: ready", target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _task_names(text: str) -> list[str]:
    """An argparse type: names of tasks with commas between them, or "all"."""
    known = {name.lower(): name for name in (*TASKS, "MRPC")}
    known |= {task.folder.lower(): name for name, task in TASKS.items()}
    if text.lower() == "all":
        return [*TASKS, "MRPC"]
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(
                f"{name!r} is no task; there are all, {', '.join([*TASKS, 'MRPC'])}"
            )
    return [known[name] for name in names]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_version(parser)
    parser.add_argument(
        "--data_dir",
        type=Path,
        default=Path("glue_data"),
        metavar="DIR",
        help="where to; made if need be (default: %(default)s)",
    )
    parser.add_argument(
        "--tasks",
        type=_task_names,
        default="all",
        metavar="NAMES",
        help=f"all, or some of {', '.join([*TASKS, 'MRPC'])}, with commas (default: %(default)s)",
    )
    parser.add_argument(
        "--path_to_mrpc",
        type=lambda text: Path(text) if text else None,
        default=None,
        metavar="DIR",
        help="folder with msr_paraphrase_train.txt and msr_paraphrase_test.txt (default: fetched)",
    )
    parser.add_argument(
        "--base_url",
        type=web_address,
        default=None,
        metavar="URL",
        help=f"folder on a mirror that has all files (default: {GLUE_URL} and, for MRPC, "
        f"{MRPC_URL})",
    )
    parser.add_argument("--retry_wait", type=seconds, default=1.0, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    args = _parser().parse_args()
    source = Source(args.base_url, args.retry_wait)
    for name in args.tasks:
        if name == "MRPC":
            download_mrpc(args.data_dir, source, args.path_to_mrpc)
        else:
            download_task(TASKS[name], args.data_dir, source)


if __name__ == "__main__":
    sys.exit(run_command(main))
