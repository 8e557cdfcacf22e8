"""Fetches URL/NAME.tar.gz and unpacks it as the folder NAME."""

import argparse
import json
import logging
import os
import re
import sys
from pathlib import Path

# Run as a script, Python looks for modules in this file's folder only.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from download.archive import ArchiveError, extract_tar
from download.command import FetchError, run_command, seconds, web_address
from download.fetch import fetch, join_url

logger = logging.getLogger(__name__)

PROJECT = Path(__file__).resolve().parent.parent

# Written last into a folder that is unpacked: where it is from and what belongs to it.
_CONTENTS = ".download.json"

_EXAMPLE = """example:
  python3 download/download_pretrained_model.py \\
      https://storage.googleapis.com/albert_models/ albert_base_v2

makes albert_base_v2/ with the checkpoint, its albert_config.json and the vocabulary. A run that
was stopped goes on where it was when the same command is given again. On a machine without a
network, put NAME.tar.gz where NAME/ is to be, and the command unpacks that.
"""


def download_model(url: str, name: str, output_dir: Path, *, retry_wait: float = 1.0) -> None:
    """Makes `output_dir`/`name`, unless a complete one is there.

    Args:
        url: folder of the archive `name`.tar.gz, or the address of a .tar.gz or .tgz itself.
        name: a simple name, without separators.
        output_dir: the parent of the new folder; made if need be.
        retry_wait: seconds before the second try of a request.

    Raises:
        FetchError: an incomplete folder is in the way, the archive cannot be fetched, is damaged
            or not safe, or the disk cannot be written.
    """
    target = output_dir / name
    if _is_in_place(target):
        logger.info("%s: already there; kept", target)
        return
    archive = output_dir / f"{name}.tar.gz"
    address = archive_address(url, name)
    was_there = os.path.isfile(archive)
    if was_there:
        logger.info("%s: already there; unpacked without fetching it", archive)
    else:
        fetch(address, archive, retry_wait=retry_wait)
    try:
        extract_tar(archive, target, finish=lambda folder: _write_contents(folder, address))
    except ArchiveError as error:
        if was_there:
            raise ArchiveError(f"{error}; remove it and run again") from error
        archive.unlink(missing_ok=True)
        raise ArchiveError(f"{error}; removed again; check the address {address}") from error
    except FetchError:
        # Another process that runs the same command may have been faster.
        if not _is_in_place(target):
            raise
    if not was_there:
        archive.unlink(missing_ok=True)
    logger.info("%s: ready", target)


def archive_address(url: str, name: str) -> str:
    """Returns the address of the archive: `url` itself if it names one, else one below it."""
    return url if url.endswith((".tar.gz", ".tgz")) else join_url(url, f"{name}.tar.gz")


def _is_in_place(target: Path) -> bool:
    """Returns whether a complete folder is there; raises FetchError if anything else is."""
    if not os.path.lexists(target):
        return False
    if not os.path.isdir(target):
        raise FetchError(f"{target}: is there and no folder; move it away and run again")
    try:
        if not os.listdir(target):
            return False
        missing = _missing_files(target)
    except OSError as error:
        raise FetchError(f"cannot read {target}: {error.strerror}; move it away") from error
    if missing:
        raise FetchError(
            f"{target}: is there but not complete, without {missing[0]}; move it away and run again"
        )
    return True


def _missing_files(folder: Path) -> list[str]:
    """Returns what a folder lacks: of its own list of contents, or, if other means than this
    command made it and it has no list, of a checkpoint (an index and all its data files)."""
    try:
        wanted = json.loads((folder / _CONTENTS).read_text(encoding="utf-8"))["files"]
        return [name for name in wanted if not (folder / name).exists()]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    indices = sorted(folder.rglob("*.index"))
    if not indices:
        return ["a checkpoint (*.index)"]
    return [part for index in indices for part in _missing_shards(index)]


def _missing_shards(index: Path) -> list[str]:
    pattern = re.compile(re.escape(index.stem) + r"\.data-\d{5}-of-(\d{5})")
    found = [match for file in index.parent.iterdir() if (match := pattern.fullmatch(file.name))]
    count = int(found[0][1]) if found else 1
    names = {match[0] for match in found}
    wanted = [f"{index.stem}.data-{i:05d}-of-{count:05d}" for i in range(count)]
    return [name for name in wanted if name not in names]


def _write_contents(folder: Path, address: str) -> None:
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    text = json.dumps({"url": address, "files": files}, indent=1)
    try:
        (folder / _CONTENTS).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise FetchError(f"cannot write {folder / _CONTENTS}: {error.strerror}") from error


def _simple_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", text) or ".." in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a simple name (letters, digits, '_', '-', '+', single '.')"
        )
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "url",
        metavar="URL",
        type=web_address,
        help="folder on the web that has NAME.tar.gz, or the address of a .tar.gz itself",
    )
    parser.add_argument(
        "name", metavar="NAME", type=_simple_name, help="the model, such as albert_base_v2"
    )
    parser.add_argument(
        "--output_dir",
        metavar="DIR",
        type=Path,
        default=PROJECT,
        help="parent of the new folder NAME (default: %(default)s)",
    )
    parser.add_argument("--retry_wait", type=seconds, default=1.0, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    args = _parser().parse_args()
    download_model(args.url, args.name, args.output_dir, retry_wait=args.retry_wait)


if __name__ == "__main__":
    sys.exit(run_command(main))
