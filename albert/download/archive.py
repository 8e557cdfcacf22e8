"""Unpacks archives from untrusted sources."""

import contextlib
import errno
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.core.log import LOG
from albert.core.text import first_line
from albert.download.fetch import fetch
from albert.download.published import PublishedFile

# What a folder must have: descriptions of files, each with patterns of which one must fit.
Parts = Mapping[str, Sequence[str]]
# Floats hardly compress, so no archive of a model comes near these limits.
_MOST_BYTES, _MOST_TIMES, _ALWAYS_BYTES = 20 * 10**9, 100, 10**8
# Limit for a header for long names or similar, which tarfile reads into memory.
_MOST_HEADER_BYTES = 1 << 20
# Errors that damaged archives raise; headers that refer to each other cause a RecursionError.
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
_DAMAGE = (*_BROKEN, EOFError, OverflowError, RuntimeError, ValueError)


class ArchiveError(UserError):
    """The archive is damaged, is not an archive, or has members that are refused."""


def is_complete(folder: Path, parts: Parts) -> bool:
    """Returns whether a folder has all parts; raises a `UserError` if it only has other files."""
    if not (os.path.lexists(folder) and os.listdir(folder)):
        return False
    if missing := _missing_part(folder, parts):
        raise UserError(f"{folder} exists but has no {missing}; move it away and run again")
    LOG.info("Kept %s, which already exists", folder)
    return True


def _missing_part(folder: Path, parts: Parts) -> str | None:
    for part, patterns in parts.items():
        if not any(path for pattern in patterns for path in folder.glob(pattern)):
            return part
    return None


def install(
    source: PublishedFile,
    archive: Path,
    target: Path,
    parts: Parts,
    finish: Callable[[Path, str], object] = lambda folder, digest: None,
) -> None:
    """Downloads an archive, unless it already exists, and unpacks it to `target`.

    `finish` is called with the unpacked folder, before it gets its name, and the archive's SHA-256.
    Raises a `UserError` if the archive cannot be downloaded, has another hash or length than
    `source`, is too large, is refused, or lacks one of the `parts`. Then `target` does not exist.
    """
    was_there = archive.is_file()
    if was_there:
        LOG.info("%s already exists and is not downloaded again", archive)
        digest = sha256_of(str(archive))
        if source.sha256 not in (None, digest):
            raise UserError(
                f"{archive}: SHA-256 is {digest}, expected {source.sha256}; move the file away"
            )
    else:
        digest = fetch(source.url, archive, source.sha256, source.size)
    try:
        with unpacked(archive, target) as folder:
            if missing := _missing_part(folder, parts):
                raise ArchiveError(f"another archive is expected, because it has no {missing}")
            finish(folder, digest)
    except ArchiveError as error:
        if was_there:
            raise UserError(f"{archive}: {error}; remove it and run again") from error
        archive.unlink()
        advice = f"removed it; check the address {source.url}"
        raise UserError(f"{archive}: {error}; {advice}") from error
    except UserError as error:
        raise UserError(f"{archive}: {error}") from error
    if not was_there:
        archive.unlink()
    LOG.info("%s is ready; SHA-256 of the archive: %s", target, digest)


@contextlib.contextmanager
def unpacked(archive: Path, target: Path) -> Iterator[Path]:
    """Unpacks the only top-level folder of a tar or zip archive, which becomes `target` at the end.

    The archive is not trusted: no file is written outside the folder, and owners and modes are
    ignored. Top-level files are omitted. It may unpack to the smaller of 20 GB and 100 times its
    size, but at least 100 MB. Raises an `ArchiveError` if the archive is damaged or refused, and a
    `UserError` if it is too large.
    """
    max_bytes = min(_MOST_BYTES, max(_ALWAYS_BYTES, _MOST_TIMES * archive.stat().st_size))
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        try:
            if zipfile.is_zipfile(archive):
                _unpack_zip(archive, scratch, max_bytes)
            else:
                _unpack_tar(archive, scratch, max_bytes)
        except (OSError, *_DAMAGE) as error:
            # Errors of the operating system have a number; those of decompressors do not. A seek to
            # before the beginning of the archive, which damage can ask for, is an invalid argument.
            number = getattr(error, "errno", None)
            if isinstance(error, UserError) or number not in (None, errno.EINVAL):
                raise
            reason = first_line(error).rstrip(":")
            raise ArchiveError(f"damaged, unsafe, or not an archive ({reason})") from error
        # macOS adds a folder with metadata.
        tops = [p for p in Path(scratch).iterdir() if p.is_dir() and p.name != "__MACOSX"]
        if len(tops) != 1:
            raise ArchiveError(f"has {len(tops)} top-level folders instead of one")
        yield tops[0]
        os.rename(tops[0], target)


def _unpack_zip(archive: Path, folder: str, max_bytes: int) -> None:
    with zipfile.ZipFile(archive) as content:
        # zipfile reads no more of a member than its header announces.
        _check_size(sum(member.file_size for member in content.infolist()), max_bytes)
        content.extractall(folder)  # removes ".." and leading "/" from names, and makes no links


class _Member(tarfile.TarInfo):
    """A header that is checked before tarfile reads the announced bytes into memory."""

    @classmethod
    def frombuf(cls, *args: Any) -> "_Member":
        header = super().frombuf(*args)
        if header.size < 0 or (header.size > _MOST_HEADER_BYTES and not header.isreg()):
            raise ArchiveError(f"a header announces {header.size} bytes")
        return header


def _unpack_tar(archive: Path, folder: str, max_bytes: int) -> None:
    # The filters of tarfile, which refuse unsafe members, are not in every Python 3.10 and 3.11.
    with tarfile.open(archive, tarinfo=_Member) as tar:
        for member in tar:
            _check_size(member.offset_data + member.size, max_bytes)
            if not (member.isfile() or member.isdir()) or member.issparse():
                raise ArchiveError(f"{member.name!r} is neither a regular file nor a folder")
            path = Path(os.path.normpath(os.path.join(folder, member.name.lstrip("/"))))
            if not path.is_relative_to(folder):
                raise ArchiveError(f"{member.name!r} would be extracted to {path}, outside")
            (path if member.isdir() else path.parent).mkdir(parents=True, exist_ok=True)
            if content := tar.extractfile(member):
                with content, open(path, "wb") as file:
                    shutil.copyfileobj(content, file)
        while tar.fileobj.read(1 << 20):  # until the checksum of the compressed stream is checked
            _check_size(tar.fileobj.tell(), max_bytes)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise UserError(
            f"unpacks to more than {max_bytes / 1e9:g} GB; if you trust it, unpack it by hand"
        )
