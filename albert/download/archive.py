"""Unpacks archives that nobody has vouched for."""

import contextlib
import logging
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.download.fetch import fetch

logger = logging.getLogger(__name__)

# Floats hardly shrink when they are packed: no archive of a model comes near these.
_MOST_BYTES, _MOST_TIMES, _ALWAYS_BYTES = 20 * 10**9, 100, 10**8
# Of a header for long names and the like, which is read into memory.
_MOST_HEADER_BYTES = 1 << 20
# What broken bytes raise; a header may be about another header, and so on without an end.
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
_DAMAGE = (*_BROKEN, EOFError, OverflowError, RuntimeError, ValueError)


class ArchiveError(UserError):
    """The archive itself is at fault: damaged, no archive, or with members that are refused."""


def install(
    url: str,
    archive: Path,
    target: Path,
    finish: Callable[[Path, str], None],
    *,
    sha256: str | None = None,
    size: int | None = None,
    max_bytes: float | None = None,
) -> None:
    """Fetches an archive and unpacks it as a new folder; one that is there already is kept.

    Args:
        url: of the archive.
        archive: where it is, or where to fetch it for the time of unpacking it.
        target: the folder to make; it must be absent or empty.
        finish: called with the unpacked folder, before it gets its name, and the archive's
            SHA-256; raises ArchiveError if the archive holds something else.
        sha256, size: what the archive must have, None for no check.
        max_bytes: see `unpack`.

    Raises:
        UserError: the archive cannot be fetched, is another than expected, is refused or too
            large. `target` does not exist then.
        OSError: a file cannot be read or written.
    """
    was_there = archive.is_file()
    if was_there:
        logger.info("%s: already there; unpacked without fetching it", archive)
        found = sha256_of(str(archive))
        if sha256 not in (None, found):
            raise UserError(f"{archive}: SHA-256 is {found}, expected {sha256}; move it away")
    else:
        found = fetch(url, archive, sha256, size)
    try:
        with new_folder(target) as folder:
            unpack(archive, folder, max_bytes)
            finish(folder, found)
    except ArchiveError as error:
        if was_there:
            raise UserError(f"{archive}: {error}; remove it and run again") from error
        archive.unlink()
        raise UserError(f"{archive}: {error}; removed again; check the address {url}") from error
    except UserError as error:
        raise UserError(f"{archive}: {error}") from error
    if not was_there:
        archive.unlink()
    logger.info("%s: ready; SHA-256 of the archive: %s", target, found)


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yields a folder to fill, which gets its name when the block ends well, else is removed."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        # One level down, because mkdir, unlike mkdtemp, gives a folder the usual mode.
        folder = Path(scratch, target.name)
        folder.mkdir()
        yield folder
        os.rename(folder, target)


def unpack(archive: Path, folder: Path, max_bytes: float | None = None) -> None:
    """Unpacks the only folder at the top of a tar or zip archive as `folder`.

    The archive is not trusted: nothing is written elsewhere, and owners and modes are not taken
    over. What lies beside that folder is left out.

    Args:
        archive: a zip archive, or a tar archive, compressed or not.
        folder: absent or empty; it appears at the end, in one step.
        max_bytes: of the unpacked archive; by default 20 GB, and 100 times the packed one.

    Raises:
        ArchiveError: the archive is damaged or refused.
        UserError: it is too large.
        OSError: it cannot be read, or the folder not be written.
    """
    if max_bytes is None:
        max_bytes = min(_MOST_BYTES, max(_ALWAYS_BYTES, _MOST_TIMES * archive.stat().st_size))
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        try:
            if zipfile.is_zipfile(archive):
                _unpack_zip(archive, scratch, max_bytes)
            else:
                _unpack_tar(archive, scratch, max_bytes)
        except (OSError, *_DAMAGE) as error:
            # What the system refuses has a number, what a decompressor does has none.
            if isinstance(error, UserError) or getattr(error, "errno", None) is not None:
                raise
            reason = str(error).partition("\n")[0].rstrip(":")
            raise ArchiveError(f"damaged, unsafe, or no archive ({reason})") from error
        # macOS adds folders of its own.
        tops = [p for p in Path(scratch).iterdir() if p.is_dir() and p.name != "__MACOSX"]
        if len(tops) != 1:
            raise ArchiveError(f"there are {len(tops)} folders at its top, one is needed")
        os.rename(tops[0], folder)


def _unpack_zip(archive: Path, folder: str, max_bytes: float) -> None:
    with zipfile.ZipFile(archive) as content:
        # No more is read of a member than it announces.
        _check_size(sum(member.file_size for member in content.infolist()), max_bytes)
        content.extractall(folder)  # takes ".." and "/" off names, and makes no links


class _Member(tarfile.TarInfo):
    """A header that is looked at before tarfile reads what it announces into memory."""

    @classmethod
    def frombuf(cls, *args: Any) -> "_Member":
        header = super().frombuf(*args)
        if header.size < 0 or (header.size > _MOST_HEADER_BYTES and not header.isreg()):
            raise ArchiveError(f"a header announces {header.size} bytes")
        return header


def _unpack_tar(archive: Path, folder: str, max_bytes: float) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise UserError("unpacking needs Python 3.10.12, 3.11.4 or later; take another Python")

    def checked(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        _check_size(member.offset_data + member.size, max_bytes)
        if not (member.isfile() or member.isdir()) or member.issparse():
            raise ArchiveError(f"{member.name!r} is neither a usual file nor a folder")
        safe = tarfile.data_filter(member, folder)
        return safe.replace(mode=None, deep=False)  # type: ignore[arg-type]  # typeshed lacks None

    with tarfile.open(archive, tarinfo=_Member) as tar:
        tar.extractall(folder, filter=checked)
        while tar.fileobj.read(1 << 20):  # to the checksum of the compressed stream
            _check_size(tar.fileobj.tell(), max_bytes)


def _check_size(size: int, max_bytes: float) -> None:
    if size > max_bytes:
        advice = "if that is right, unpack it by hand, or with a higher --max_unpacked_gb"
        raise UserError(f"unpacks to more than {max_bytes / 1e9:g} GB; {advice}")
