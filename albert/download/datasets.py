"""Downloads SQuAD, RACE and GLUE, and checks files against their published hashes."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from albert.core.errors import UserError
from albert.core.files import sha256_of, temporary_folder
from albert.core.log import LOG
from albert.download.archive import Parts, install, is_complete
from albert.download.fetch import fetch_published, making
from albert.download.mrpc import make_mrpc
from albert.download.published import PUBLISHED, PublishedFile

_RACE: Parts = {
    f"{split}/{level}/*.txt": [f"{split}/{level}/*.txt"]
    for split in ("train", "dev", "test")
    for level in ("middle", "high")
}
_ZIPPED = ("CoLA", "SST-2", "QQP", "STS-B", "MNLI", "QNLI", "RTE", "WNLI")
# The keys are the folders of the tasks.
_ARCHIVES = {task: f"{task}.zip" for task in _ZIPPED}
_ARCHIVES |= {"QQP": "QQP-clean.zip", "QNLI": "QNLIv2.zip"}
GLUE = [*_ARCHIVES, "diagnostic", "MRPC"]
_SPLITS = {
    "MNLI": ["train", *(f"{p}_{k}matched" for p in ("dev", "test") for k in ("", "mis"))],
    "diagnostic": ["diagnostic"],
}


def download_squad(data_dir: Path, base_url: str | None, version: str) -> None:
    """Downloads SQuAD's files; keeps those with the right hash; raises a `UserError` for others."""
    paths = [data_dir / f"{split}-v{version}.json" for split in ("train", "dev")]
    with making(data_dir / "SQuAD"):
        # All files are checked before the first request.
        for path in [path for path in paths if not _is_there(path)]:
            fetch_published(path.name, path, base_url)
            LOG.info("Downloaded %s, which has the published hash", path)


def _is_there(path: Path) -> bool:
    if not os.path.lexists(path):
        return False
    digest, expected = sha256_of(str(path)), PUBLISHED[path.name].sha256
    if digest != expected:
        raise UserError(
            f"{path} already exists with SHA-256 {digest}, expected {expected}; move it away"
        )
    LOG.info("Kept %s, which has the published hash", path)
    return True


def download_race(data_dir: Path, url: str, sha256: str | None) -> None:
    """Downloads RACE, or takes the archive RACE.tar.gz, and unpacks it, unless RACE already exists.

    Raises a `UserError` if that fails, or if the archive has another hash or is not RACE.
    """
    target = data_dir / "RACE"
    with making(target):
        if not is_complete(target, _RACE):
            install(PublishedFile(sha256, None, url), data_dir / "RACE.tar.gz", target, _RACE)


def download_glue(
    data_dir: Path, tasks: Sequence[str], base_url: str | None, path_to_mrpc: Path | None
) -> None:
    """Downloads the files of tasks to their folders; keeps a folder that already exists.

    `base_url` is the address of a folder that has all files; for the others see `make_mrpc`. Raises
    a `UserError` if a file cannot be downloaded or written, or if it or its content is missing.
    """
    for task in tasks:
        target, names = data_dir / task, _SPLITS.get(task, ["train", "dev", "test"])
        parts = {name: [name] for name in (f"{name}.tsv" for name in names)}
        with making(target):
            if is_complete(target, parts):
                continue
            if task in _ARCHIVES:
                file = PUBLISHED[_ARCHIVES[task]].on(base_url)
                install(file, data_dir / _ARCHIVES[task], target, parts, _keep_tables)
                continue
            with temporary_folder(str(target)) as folder:
                if task == "MRPC":
                    make_mrpc(Path(folder), base_url, path_to_mrpc)
                else:
                    fetch_published("AX.tsv", Path(folder, "diagnostic.tsv"), base_url)
            LOG.info("%s is ready", target)


def _keep_tables(folder: Path, _: str) -> None:
    """Removes everything except .tsv files, such as the original files, which are large."""
    for item in folder.iterdir():
        if item.is_dir():
            shutil.rmtree(item)
        elif item.suffix != ".tsv":
            item.unlink()
