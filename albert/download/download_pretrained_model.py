"""Fetches a pretrained model and unpacks it as the folder NAME."""

import argparse
import logging
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from albert.core.errors import UserError
from albert.core.files import write_json
from albert.download.archive import ArchiveError, install
from albert.download.command import add_option, new_parser, run_command, web_address
from albert.download.fetch import making
from albert.download.published import MODELS, join_url

logger = logging.getLogger(__name__)

# In a folder that is unpacked: where it is from.
_ORIGIN = ".download.json"
# What a model cannot do without, by the names of its files.
_PARTS = {
    "checkpoint": ("*.index",),
    "weights": ("*.data-?????-of-?????",),
    "configuration": ("*config.json",),
    "vocabulary": ("*.model", "vocab*.txt"),
}

_EXAMPLE = """examples:
  %(prog)s albert_base_v2
  %(prog)s https://example.org/models/ my_albert

The first makes albert_base_v2/ with the checkpoint, its albert_config.json and the vocabulary. On a
machine without a network, put NAME.tar.gz (or NAME.zip) where NAME/ is to be, and the command
unpacks that. Known without a URL are Google's models:
{models}

Nobody publishes hashes of these archives. The command prints the SHA-256 of the one it unpacks and
keeps it in NAME/.download.json: give it as --sha256 to have the same one everywhere.
"""


def download_model(
    url: str, target: Path, sha256: str | None = None, max_bytes: float | None = None
) -> None:
    """Makes a folder with a model, unless a complete one is there.

    Args:
        url: of the archive.
        target: the folder; an archive of its name beside it is unpacked without fetching it, a
            .zip if the URL names one, else a .tar.gz.
        sha256: expected hash of the archive, in hexadecimal, or None for no check.
        max_bytes: of the unpacked archive, see `unpack`.

    Raises:
        UserError: an incomplete folder or one of another archive is in the way, the archive
            cannot be fetched, is another than expected, damaged, not safe or without a model, or
            the disk cannot be written.
    """

    def finish(folder: Path, found: str) -> None:
        if missing := _missing_part(folder):
            raise ArchiveError(f"no model, it has no {missing}")
        write_json(str(folder / _ORIGIN), {"url": url, "sha256": found})

    with making(target):
        if os.path.lexists(target) and os.listdir(target):
            _check_in_place(target, sha256)
            logger.info("%s: already there; kept", target)
        else:
            ending = ".zip" if url.endswith(".zip") else ".tar.gz"
            archive = target.with_name(f"{target.name}{ending}")
            install(url, archive, target, finish, sha256=sha256, max_bytes=max_bytes)


def archive_address(url: str | None, name: str) -> str:
    """Returns the address of the archive: `url` itself if it names one, else one below it.

    Without a URL it is Google's for the name.

    Raises:
        UserError: there is no URL, and the name is not known.
    """
    if url is None:
        if name not in MODELS:
            raise UserError(f"{name} is not known without a URL; see --help for the names that are")
        return MODELS[name]
    return url if url.endswith((".tar.gz", ".tgz", ".zip")) else join_url(url, f"{name}.tar.gz")


def _check_in_place(target: Path, sha256: str | None) -> None:
    """Checks that a folder has a model, and is of the archive with a hash, if one is given."""
    if missing := _missing_part(target):
        raise UserError(f"{target}: is there without {missing}; move it away and run again")
    origin = target / _ORIGIN
    known = origin.read_text(encoding="utf-8", errors="replace") if origin.is_file() else ""
    if sha256 and sha256 not in known:
        raise UserError(
            f"{target}: is there, from another archive than that with SHA-256 {sha256}, "
            f"see {_ORIGIN} in it; move it away and run again"
        )


def _missing_part(folder: Path) -> str | None:
    """Returns the missing part of a model's folder, with its possible names; None if complete."""
    for part, patterns in _PARTS.items():
        if not any(path for pattern in patterns for path in folder.rglob(pattern)):
            return f"{part} ({' or '.join(patterns)})"
    return None


def _simple_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", text) or ".." in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a simple name (letters, digits, '_', '-', '+', single '.')"
        )
    return text


def _parser(program: str | None) -> argparse.ArgumentParser:
    names = textwrap.wrap(", ".join(MODELS), 96, break_on_hyphens=False)
    names = [f"  {line}" for line in names]
    parser = new_parser(program, __doc__, _EXAMPLE.format(models="\n".join(names)))
    text = "folder on the web that has NAME.tar.gz, or the address of an archive itself"
    parser.add_argument("url", metavar="URL", nargs="?", type=web_address, help=text)
    text = "the model, such as albert_base_v2"
    parser.add_argument("name", metavar="NAME", type=_simple_name, help=text)
    text = "parent of the new folder NAME (default: %(default)s)"
    parser.add_argument("--output_dir", metavar="DIR", type=Path, default=Path(), help=text)
    add_option(parser, "sha256")
    text = "refuse an archive of more (default: 20, and 100 times the packed one)"
    parser.add_argument("--max_unpacked_gb", metavar="GB", type=float, help=text)
    return parser


def main(argv: Sequence[str] | None = None, program: str | None = None) -> None:
    """Fetches what a command line asks for; without one, that of this process."""
    args = _parser(program).parse_args(argv)
    url = archive_address(args.url, args.name)
    max_bytes = args.max_unpacked_gb and args.max_unpacked_gb * 1e9
    download_model(url, args.output_dir / args.name, args.sha256, max_bytes)


if __name__ == "__main__":
    sys.exit(run_command(main))
