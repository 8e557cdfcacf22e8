"""Fetches a dataset's files, checked against their published hashes."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.download.archive import ArchiveError, install
from albert.download.command import add_option, epilog, new_parser, run_command, web_address
from albert.download.fetch import fetch, making
from albert.download.published import PUBLISHED

logger = logging.getLogger(__name__)

# No hash of it is published.
RACE_URL = "http://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz"

_SQUAD = "--version 1.1 --data_dir data/squad"
_RACE = "--data_dir data"


def download_squad(args: argparse.Namespace) -> None:
    """Brings SQuAD's files into a folder; right ones that are there stay.

    Raises:
        UserError: a file with another content is there, or one cannot be fetched or written.
    """
    names = [f"{part}-v{args.version}.json" for part in ("train", "dev")]
    with making(args.data_dir / "SQuAD"):
        # All are looked at before the first byte is asked for.
        missing = [n for n in names if not _is_there(args.data_dir / n, args.force)]
        for name in missing:
            file = PUBLISHED[name].on(args.base_url)
            fetch(file.url, args.data_dir / name, file.sha256, file.size)
            logger.info("%s: fetched, hash as published", args.data_dir / name)


def _is_there(path: Path, force: bool) -> bool:
    if not os.path.lexists(path):
        return False
    found, expected = sha256_of(str(path)), PUBLISHED[path.name].sha256
    if found == expected:
        logger.info("%s: already there, hash as published; kept", path)
    elif not force:
        raise UserError(
            f"{path}: already there with SHA-256 {found}, expected {expected}; move it away, or "
            "replace it with --force"
        )
    return found == expected


def download_race(args: argparse.Namespace) -> None:
    """Brings RACE, which is an archive, into the folder RACE; one that is there stays.

    An archive that is there already, as RACE.tar.gz, is unpacked without fetching it, and kept.

    Raises:
        UserError: the archive cannot be fetched, is another one or not RACE, or the disk cannot
            be written.
    """
    target = args.data_dir / "RACE"
    with making(target):
        if os.path.lexists(target):
            _check_is_race(target)
            logger.info("%s: already there; kept", target)
        else:
            archive = args.data_dir / "RACE.tar.gz"
            install(args.url, archive, target, _check_is_race, sha256=args.sha256)


def _check_is_race(folder: Path, *_: str) -> None:
    parts = [(part, level) for part in ("train", "dev", "test") for level in ("middle", "high")]
    for name in map("/".join, parts):
        if not any((folder / name).glob("*.txt")):
            raise ArchiveError(f"{folder}: not RACE, there is no .txt file in {name}")


def _parser(program: str | None) -> argparse.ArgumentParser:
    examples = f"examples:\n  %(prog)s squad {_SQUAD}\n  %(prog)s race {_RACE}\n"
    parser = new_parser(program, __doc__, examples)
    datasets = parser.add_subparsers(title="datasets", dest="dataset", required=True)

    what = "SQuAD: train-v*.json and dev-v*.json"
    example = f"example:\n  %(prog)s {_SQUAD}\n"
    # Its --version is that of the data.
    squad = datasets.add_parser(
        "squad", help=what, description=what, epilog=epilog(example), conflict_handler="resolve"
    )
    add_option(squad, "data_dir", required=True)
    add_option(squad, "base_url")
    squad.add_argument("--version", choices=("1.1", "2.0"), default="1.1", help="default: 1.1")
    text = "replace a file there whose hash is wrong"
    squad.add_argument("--force", action="store_true", help=text)
    squad.set_defaults(run=download_squad)
    what = "RACE: train, dev and test, a file a passage, in DIR/RACE"
    example = f"example:\n  %(prog)s {_RACE}\n"
    race = datasets.add_parser("race", help=what, description=what, epilog=epilog(example))
    add_option(race, "data_dir", required=True)
    add_option(race, "sha256")
    text = "of the archive, on a mirror (default: %(default)s)"
    race.add_argument("--url", type=web_address, default=RACE_URL, help=text)
    race.set_defaults(run=download_race)
    return parser


def main(argv: Sequence[str] | None = None, program: str | None = None) -> None:
    """Fetches what a command line asks for; without one, that of this process."""
    args = _parser(program).parse_args(argv)
    args.run(args)


if __name__ == "__main__":
    sys.exit(run_command(main))
