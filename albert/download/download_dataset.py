"""Downloads a dataset's files and checks them against their published hashes."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.core.log import LOG
from albert.download.archive import ArchiveError, install
from albert.download.command import STOPPED, add_option, new_parser, run_command, web_address
from albert.download.fetch import fetch, making
from albert.download.published import PUBLISHED

# The publisher gives no hash.
RACE_URL = "http://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz"

_SPLITS = ("train", "dev")
_SQUAD = "--version 1.1 --data_dir data/squad"
_RACE = "--data_dir data"


def download_squad(args: argparse.Namespace) -> None:
    """Downloads SQuAD's files; keeps those with the right hash; raises a `UserError` for others."""
    names = [f"{split}-v{args.version}.json" for split in args.splits]
    with making(args.data_dir / "SQuAD"):
        # All files are checked before the first request.
        missing = [n for n in names if not _is_there(args.data_dir / n, args.force)]
        for name in missing:
            file = PUBLISHED[name].on(args.base_url)
            fetch(file.url, args.data_dir / name, file.sha256, file.size)
            LOG.info("Downloaded %s, which has the published hash", args.data_dir / name)


def _is_there(path: Path, force: bool) -> bool:
    if not os.path.lexists(path):
        return False
    digest, expected = sha256_of(str(path)), PUBLISHED[path.name].sha256
    if digest == expected:
        LOG.info("Kept %s, which has the published hash", path)
    elif not force:
        raise UserError(
            f"{path} already exists with SHA-256 {digest}, expected {expected}; move it away, or "
            "pass --force to replace it"
        )
    return digest == expected


def download_race(args: argparse.Namespace) -> None:
    """Downloads RACE, or takes the archive RACE.tar.gz, and unpacks it, unless RACE already exists.

    Raises a `UserError` if that fails, or if the archive has another hash or is not RACE.
    """
    target = args.data_dir / "RACE"
    with making(target):
        if os.path.lexists(target):
            _check_is_race(target)
            LOG.info("Kept %s, which already exists", target)
        else:
            archive = args.data_dir / "RACE.tar.gz"
            install(args.url, archive, target, _check_is_race, sha256=args.sha256)


def _check_is_race(folder: Path, *_: str) -> None:
    parts = [(part, level) for part in ("train", "dev", "test") for level in ("middle", "high")]
    for name in map("/".join, parts):
        if not any((folder / name).glob("*.txt")):
            raise ArchiveError(f"{folder} is not RACE: it has no .txt file in {name}")


def _parser(program: str | None) -> argparse.ArgumentParser:
    examples = f"examples:\n  %(prog)s squad {_SQUAD}\n  %(prog)s race {_RACE}\n"
    parser = new_parser(program, __doc__, examples)
    datasets = parser.add_subparsers(title="datasets", dest="dataset", required=True)

    what = "SQuAD: the files train-v*.json and dev-v*.json"
    example = f"example:\n  %(prog)s {_SQUAD}\n"
    # Here, --version is the version of the data.
    squad = datasets.add_parser(
        "squad", help=what, description=what, epilog=example + STOPPED, conflict_handler="resolve"
    )
    add_option(squad, "data_dir", required=True)
    add_option(squad, "base_url")
    text = "version of SQuAD (default: %(default)s)"
    squad.add_argument("--version", choices=("1.1", "2.0"), default="1.1", help=text)
    text = "files to download (default: both)"
    squad.add_argument("--splits", nargs="+", choices=_SPLITS, default=_SPLITS, help=text)
    text = "replace existing files whose hash is wrong"
    squad.add_argument("--force", action="store_true", help=text)
    squad.set_defaults(run=download_squad)
    what = "RACE: the folders train, dev and test in DIR/RACE, with one file per passage"
    example = f"example:\n  %(prog)s {_RACE}\n"
    race = datasets.add_parser("race", help=what, description=what, epilog=example + STOPPED)
    add_option(race, "data_dir", required=True)
    add_option(race, "sha256")
    text = "address of the archive, for example on a mirror (default: %(default)s)"
    race.add_argument("--url", type=web_address, default=RACE_URL, help=text)
    race.set_defaults(run=download_race)
    return parser


def main(argv: Sequence[str] | None = None, program: str | None = None) -> None:
    """Downloads the dataset that a command line names; by default, this process's."""
    args = _parser(program).parse_args(argv)
    args.run(args)


if __name__ == "__main__":
    sys.exit(run_command(main))
