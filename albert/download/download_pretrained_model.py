"""Downloads a pretrained model and unpacks it to the folder NAME."""

import argparse
import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from albert.core.errors import UserError
from albert.core.files import write_json
from albert.core.log import LOG
from albert.download.archive import ArchiveError, install
from albert.download.command import add_option, new_parser, run_command, web_address
from albert.download.fetch import making
from albert.download.published import MODELS, join_url

# A file in the unpacked folder that records its source.
_ORIGIN = ".download.json"
# The required parts of a model, with the names of their files.
_PARTS = {
    "checkpoint": ("*.index",),
    "weights": ("*.data-?????-of-?????",),
    "configuration": ("*config.json",),
    "vocabulary": ("*.model", "vocab*.txt"),
}

_EXAMPLE = """examples:
  %(prog)s albert_base_v2
  %(prog)s https://example.org/models/ my_albert

The first example makes albert_base_v2/ with the checkpoint, its albert_config.json and the
vocabulary. On a machine without a network, put NAME.tar.gz (or NAME.zip) in the folder where you
want NAME/; the command then unpacks it. These models from Google do not need a URL:
{models}

Google does not publish hashes of these archives. The command prints the SHA-256 of the archive and
saves it in NAME/.download.json. Pass it as --sha256 to get the same archive on other machines.
"""


def download_model(
    url: str, target: Path, sha256: str | None = None, max_bytes: float | None = None
) -> None:
    """Downloads a model to a folder, unless the folder already has a complete one.

    If an archive with the name of `target` is next to it, that archive is unpacked without a
    download: a .zip if the URL names one, otherwise a .tar.gz. `sha256` is the expected hash of the
    archive, in hexadecimal; for `max_bytes` see `unpack`. Raises a `UserError` if the folder is
    incomplete or from another archive, or the archive cannot be used.
    """

    def finish(folder: Path, digest: str) -> None:
        if missing := _missing_part(folder):
            raise ArchiveError(f"not a model: it has no {missing}")
        write_json(str(folder / _ORIGIN), {"url": url, "sha256": digest})

    with making(target):
        if os.path.lexists(target) and os.listdir(target):
            _check_in_place(target, sha256)
            LOG.info("Kept %s, which already exists", target)
        else:
            ending = ".zip" if url.endswith(".zip") else ".tar.gz"
            archive = target.with_name(f"{target.name}{ending}")
            install(url, archive, target, finish, sha256=sha256, max_bytes=max_bytes)


def archive_address(url: str | None, name: str) -> str:
    """Returns the address of the archive: `url` if it names an archive, otherwise one in `url`.

    Without a URL, it is Google's address for the name; an unknown name raises a `UserError`.
    """
    if url is None:
        if name not in MODELS:
            raise UserError(f"{name} is unknown; pass its URL, or see --help for the known names")
        return MODELS[name]
    return url if url.endswith((".tar.gz", ".tgz", ".zip")) else join_url(url, f"{name}.tar.gz")


def _check_in_place(target: Path, sha256: str | None) -> None:
    """Checks that a folder has a model and, if a hash is given, is from the archive with it."""
    if missing := _missing_part(target):
        raise UserError(f"{target} exists but has no {missing}; move it away and run again")
    origin = target / _ORIGIN
    known = origin.read_text(encoding="utf-8", errors="replace") if origin.is_file() else ""
    if sha256 and sha256 not in known:
        raise UserError(
            f"{target} exists, but is not from the archive with SHA-256 {sha256}, according to its "
            f"{_ORIGIN}; move it away and run again"
        )


def _missing_part(folder: Path) -> str | None:
    """Returns the first missing part of a model's folder, with its possible names, or None."""
    for part, patterns in _PARTS.items():
        if not any(path for pattern in patterns for path in folder.rglob(pattern)):
            return f"{part} ({' or '.join(patterns)})"
    return None


def _simple_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", text) or ".." in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a simple name; use letters, digits, '_', '-', '+' and single '.'"
        )
    return text


def _positive(text: str) -> float:
    # NaN fails the comparison, too.
    with contextlib.suppress(ValueError):
        if (number := float(text)) > 0:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")


def _parser(program: str | None) -> argparse.ArgumentParser:
    names = textwrap.wrap(", ".join(MODELS), 96, break_on_hyphens=False)
    names = [f"  {line}" for line in names]
    parser = new_parser(program, __doc__, _EXAMPLE.format(models="\n".join(names)))
    text = "address of a folder that has NAME.tar.gz, or address of an archive"
    parser.add_argument("url", metavar="URL", nargs="?", type=web_address, help=text)
    text = "name of the model, such as albert_base_v2"
    parser.add_argument("name", metavar="NAME", type=_simple_name, help=text)
    text = "parent of the new folder NAME (default: %(default)s)"
    parser.add_argument("--output_dir", metavar="DIR", type=Path, default=Path(), help=text)
    add_option(parser, "sha256")
    text = (
        "refuse an archive that unpacks to more than this, in GB (default: the smaller of 20 GB "
        "and 100 times the size of the archive, but at least 0.1)"
    )
    parser.add_argument("--max_unpacked_gb", metavar="GB", type=_positive, help=text)
    return parser


def main(argv: Sequence[str] | None = None, program: str | None = None) -> None:
    """Downloads the model that a command line names; by default, this process's."""
    args = _parser(program).parse_args(argv)
    url = archive_address(args.url, args.name)
    max_bytes = args.max_unpacked_gb and args.max_unpacked_gb * 1e9
    download_model(url, args.output_dir / args.name, args.sha256, max_bytes)


if __name__ == "__main__":
    sys.exit(run_command(main))
