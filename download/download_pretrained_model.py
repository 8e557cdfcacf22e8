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
from download.command import (
    FetchError,
    add_version,
    gigabytes,
    run_command,
    seconds,
    sha256,
    web_address,
)
from download.fetch import fetch, file_sha256, join_url

logger = logging.getLogger(__name__)

PROJECT = Path(__file__).resolve().parent.parent

# Written last into a folder that is unpacked: where it is from and what belongs to it.
_CONTENTS = ".download.json"
# What a model cannot do without, by the names of its files.
_PARTS = {
    "checkpoint": ("*.index",),
    "configuration": ("*config.json",),
    "vocabulary": ("*.model", "vocab.txt"),
}

_EXAMPLE = """example:
  python3 download/download_pretrained_model.py \\
      https://storage.googleapis.com/albert_models/ albert_base_v2

makes albert_base_v2/ with the checkpoint, its albert_config.json and the vocabulary. A run that
was stopped goes on where it was when the same command is given again. On a machine without a
network, put NAME.tar.gz where NAME/ is to be, and the command unpacks that.

Nobody publishes hashes of these archives. The command prints the SHA-256 of the one it unpacks and
keeps it in NAME/.download.json: give it as --sha256 to have the same one everywhere.
"""


def download_model(
    url: str,
    name: str,
    output_dir: Path,
    *,
    sha256: str | None = None,
    max_bytes: int | None = None,
    retry_wait: float = 1.0,
) -> None:
    """Makes `output_dir`/`name`, unless a complete one is there.

    Args:
        url: folder of the archive `name`.tar.gz, or the address of a .tar.gz or .tgz itself.
        name: a simple name, without separators.
        output_dir: the parent of the new folder; made if need be.
        sha256: expected hash of the archive, in hexadecimal, or None for no check.
        max_bytes: of the unpacked archive, see `extract_tar`.
        retry_wait: seconds before the second try of a request.

    Raises:
        FetchError: an incomplete folder or one of another archive is in the way, the archive
            cannot be fetched, is another than expected, damaged, not safe or without a model, or
            the disk cannot be written.
    """
    target = output_dir / name
    if _is_in_place(target):
        _check_origin(target, sha256)
        logger.info("%s: already there; kept", target)
        return
    archive = output_dir / f"{name}.tar.gz"
    address = archive_address(url, name)
    was_there = os.path.isfile(archive)
    if was_there:
        logger.info("%s: already there; unpacked without fetching it", archive)
    else:
        fetch(address, archive, sha256, retry_wait=retry_wait)
    found = file_sha256(archive)
    if sha256 not in (None, found):
        raise FetchError(f"{archive}: SHA-256 is {found}, expected {sha256}; move it away")

    def finish(folder: Path) -> None:
        _check_is_model(folder, archive)
        _write_contents(folder, address, found)

    try:
        extract_tar(archive, target, max_bytes=max_bytes, finish=finish)
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
    known = "as expected" if sha256 else "no hash of it is published; --sha256 checks the next one"
    logger.info("%s: SHA-256 %s, %s", archive.name, found, known)
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


def _check_origin(target: Path, sha256: str | None) -> None:
    """Checks that a folder was unpacked from the archive with a hash, if one is given."""
    found = _contents(target).get("sha256")
    if sha256 not in (None, found):
        whose = f"an archive with SHA-256 {found}" if found else "an archive of unknown hash"
        raise FetchError(f"{target}: is there, from {whose}, expected {sha256}; move it away")


def _check_is_model(folder: Path, archive: Path) -> None:
    """Checks that an archive held what a model needs."""
    for part, patterns in _PARTS.items():
        if not any(path for pattern in patterns for path in folder.rglob(pattern)):
            raise ArchiveError(f"{archive}: no model, it has no {part} ({' or '.join(patterns)})")
    if missing := _missing_of_checkpoint(folder):
        raise ArchiveError(f"{archive}: no whole model, {missing[0]} is not in it")


def _contents(folder: Path) -> dict:
    """Returns the list of contents of a folder that this command made, {} if there is none."""
    try:
        contents = json.loads((folder / _CONTENTS).read_text(encoding="utf-8"))
        return contents if isinstance(contents, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _missing_files(folder: Path) -> list[str]:
    """Returns what a folder lacks: of its own list of contents, or, if other means than this
    command made it and it has no list, of a checkpoint."""
    wanted = _contents(folder).get("files")
    if isinstance(wanted, list):
        return [name for name in map(str, wanted) if not (folder / name).exists()]
    return _missing_of_checkpoint(folder)


def _missing_of_checkpoint(folder: Path) -> list[str]:
    """Returns which files a folder lacks of its checkpoints (an index and all data files each)."""
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


def _write_contents(folder: Path, address: str, sha256: str) -> None:
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    text = json.dumps({"url": address, "sha256": sha256, "files": files}, indent=1)
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
    add_version(parser)
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
    parser.add_argument(
        "--sha256",
        metavar="HEX",
        type=sha256,
        help="hash of the archive; another one is an error (default: not checked)",
    )
    parser.add_argument(
        "--max_unpacked_gb",
        metavar="GB",
        type=gigabytes,
        help="refuse an archive of more (default: 20, and 100 times the packed one)",
    )
    parser.add_argument("--retry_wait", type=seconds, default=1.0, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    args = _parser().parse_args()
    download_model(
        args.url,
        args.name,
        args.output_dir,
        sha256=args.sha256,
        max_bytes=args.max_unpacked_gb,
        retry_wait=args.retry_wait,
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
