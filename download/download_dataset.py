"""Fetches a dataset's files, checked against their published hashes."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# Run as a script, Python looks for modules in this file's folder only.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from download.archive import ArchiveError, extract_tar
from download.command import FetchError, add_version, run_command, seconds, sha256, web_address
from download.fetch import fetch, file_sha256, join_url

logger = logging.getLogger(__name__)


class DataFile(NamedTuple):
    """A published file: its name, its SHA-256 in hexadecimal, its size in bytes."""

    name: str
    sha256: str
    size: int


SQUAD_URL = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
SQUAD_FILES = {
    "1.1": (
        DataFile(
            "train-v1.1.json",
            "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
            30_288_272,
        ),
        DataFile(
            "dev-v1.1.json",
            "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
            4_854_279,
        ),
    ),
    "2.0": (
        DataFile(
            "train-v2.0.json",
            "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
            42_123_633,
        ),
        DataFile(
            "dev-v2.0.json",
            "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
            4_370_528,
        ),
    ),
}

# No hash of it is published.
RACE_URL = "http://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz"
_RACE_FOLDERS = [
    f"{part}/{level}" for part in ("train", "dev", "test") for level in ("middle", "high")
]

_EXAMPLE = """examples:
  python3 download/download_dataset.py squad --version 1.1 --data_dir data/squad
  python3 download/download_dataset.py race --data_dir data

A run that was stopped goes on where it was when the same command is given again.
"""


def download_files(
    files: Sequence[DataFile],
    base_url: str,
    data_dir: Path,
    *,
    force: bool = False,
    retry_wait: float = 1.0,
) -> None:
    """Brings `files` from below `base_url` into `data_dir`; right ones that are there stay.

    Args:
        files: what to fetch; all are checked before the first byte is asked for.
        base_url: address of the folder that has them.
        data_dir: made if need be.
        force: replace a file whose hash is wrong instead of raising.
        retry_wait: seconds before the second try of a request.

    Raises:
        FetchError: a file with another content is there already, or one cannot be fetched.
    """
    missing = [file for file in files if not _is_there(data_dir / file.name, file, force)]
    for file in missing:
        url = join_url(base_url, file.name)
        path = data_dir / file.name
        fetch(url, path, file.sha256, file.size, retry_wait=retry_wait)
        logger.info("%s: fetched, %d bytes, hash as published", path, file.size)


def _is_there(path: Path, file: DataFile, force: bool) -> bool:
    if not os.path.lexists(path):
        return False
    got = file_sha256(path)
    if got == file.sha256:
        logger.info("%s: already there, hash as published; kept", path)
        return True
    if force:
        logger.info("%s: another content is there; it is replaced (--force)", path)
        return False
    raise FetchError(
        f"{path}: already there with SHA-256 {got}, expected {file.sha256}; "
        "move it away, or replace it with --force"
    )


def download_race(
    url: str, data_dir: Path, *, expected: str | None = None, retry_wait: float = 1.0
) -> None:
    """Brings RACE, which is an archive at `url`, into `data_dir`/RACE; one that is there stays.

    An archive that is there already, as RACE.tar.gz, is unpacked without fetching it, and kept.

    Args:
        url: of the archive.
        data_dir: made if need be.
        expected: SHA-256 of the archive in hexadecimal, None for no check.
        retry_wait: seconds before the second try of a request.

    Raises:
        FetchError: the archive cannot be fetched, is another one or not RACE, or the disk cannot
            be written.
    """
    target, archive = data_dir / "RACE", data_dir / "RACE.tar.gz"
    if os.path.lexists(target):
        _check_is_race(target)
        logger.info("%s: already there; kept", target)
        return
    was_there = archive.exists()
    if not was_there:
        fetch(url, archive, expected, retry_wait=retry_wait)
    found = file_sha256(archive)
    if expected not in (None, found):
        raise FetchError(f"{archive}: SHA-256 is {found}, expected {expected}; move it away")
    try:
        extract_tar(archive, target, finish=_check_is_race)
    except ArchiveError as error:
        if was_there:
            raise ArchiveError(f"{error}; remove it and run again") from error
        archive.unlink()
        raise ArchiveError(f"{error}; removed again; check the address {url}") from error
    if not was_there:
        archive.unlink()
    logger.info("%s: unpacked; SHA-256 of the archive: %s", target, found)


def _check_is_race(folder: Path) -> None:
    for name in _RACE_FOLDERS:
        if not any((folder / name).glob("*.txt")):
            raise ArchiveError(f"{folder}: not RACE, there is no .txt file in {name}")


def _download_race(args: argparse.Namespace) -> None:
    download_race(args.url, args.data_dir, expected=args.sha256, retry_wait=args.retry_wait)


def _download_squad(args: argparse.Namespace) -> None:
    download_files(
        SQUAD_FILES[args.version],
        args.base_url,
        args.data_dir,
        force=args.force,
        retry_wait=args.retry_wait,
    )


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--data_dir", type=Path, required=True, metavar="DIR", help="where to; made if need be"
    )
    common.add_argument("--retry_wait", type=seconds, default=1.0, help=argparse.SUPPRESS)

    parser = argparse.ArgumentParser(
        description=__doc__, epilog=_EXAMPLE, formatter_class=formatter, allow_abbrev=False
    )
    add_version(parser)
    datasets = parser.add_subparsers(title="datasets", dest="dataset", required=True)
    alike = {
        "parents": [common],
        "epilog": _EXAMPLE,
        "formatter_class": formatter,
        "allow_abbrev": False,
    }
    squad = datasets.add_parser(
        "squad",
        help="SQuAD: train-v*.json and dev-v*.json",
        description="Fetches SQuAD's train-v*.json and dev-v*.json.",
        **alike,
    )
    squad.add_argument(
        "--force", action="store_true", help="replace a file there whose hash is wrong"
    )
    squad.add_argument(
        "--version", choices=sorted(SQUAD_FILES), default="1.1", help="default: %(default)s"
    )
    squad.add_argument(
        "--base_url",
        type=web_address,
        default=SQUAD_URL,
        metavar="URL",
        help="folder on a mirror that has the files (default: %(default)s)",
    )
    squad.set_defaults(run=_download_squad)
    race = datasets.add_parser(
        "race",
        help="RACE: train, dev and test, a file a passage",
        description="Fetches RACE and unpacks it into DIR/RACE.",
        **alike,
    )
    race.add_argument(
        "--url",
        type=web_address,
        default=RACE_URL,
        help="of the archive, on a mirror (default: %(default)s)",
    )
    race.add_argument("--sha256", type=sha256, metavar="HASH", help="that the archive must have")
    race.set_defaults(run=_download_race)
    return parser


def main() -> None:
    args = _parser().parse_args()
    args.run(args)


if __name__ == "__main__":
    sys.exit(run_command(main))
