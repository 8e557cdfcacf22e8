"""Unpacks archives that nobody has vouched for."""

import contextlib
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from download.command import FetchError, sync_folder, writing

_CHUNK = 1 << 16  # bytes

# Floats hardly shrink when they are packed: no archive of a model comes near these.
_MOST_BYTES, _MOST_TIMES, _ALWAYS_BYTES = 20 * 10**9, 100, 10**8
# Of a header for long names and the like, which is read into memory.
_MOST_HEADER_BYTES = 1 << 20
_LONG_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

# What tarfile and the decompressors raise for broken bytes; a header may be about another header,
# and so on without an end.
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, RecursionError)


class ArchiveError(FetchError):
    """The archive itself is at fault: damaged, no archive, or with members that are refused."""


def extract_tar(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    strip_components: int = 1,
    *,
    max_bytes: int | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Unpacks a tar archive, compressed or not, into the new folder `target`.

    The archive is not trusted: a member that would land outside, or that is neither a file nor a
    folder, ends the extraction. Owners and modes are not taken over: files and folders get those
    that this process gives to new ones. All happens in a temporary folder beside `target`, which
    gets its name at the very end.

    Args:
        path: the archive.
        target: the folder to make; it must be absent or empty.
        strip_components: leading folders to take off each name; files not so deep are left out.
        max_bytes: of the unpacked archive; by default 20 GB, and 100 times the packed one.
        finish: called with the unpacked folder before it gets its name.

    Raises:
        ArchiveError: the archive is damaged or refused.
        FetchError: the archive cannot be read or is too large, or the folder cannot be written.
        Nothing is left behind in either case.
    """
    path, target = Path(path), Path(target)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        # One level down, because mkdir, unlike mkdtemp, gives a folder the usual mode.
        folder = scratch / target.name
        with writing(folder):
            folder.mkdir()
        _extract_checked(path, folder, strip_components, max_bytes)
        if finish is not None:
            finish(folder)
        with writing(target):
            os.rename(folder, target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _extract_checked(path: Path, folder: Path, strip: int, max_bytes: int | None) -> None:
    try:
        if max_bytes is None:
            max_bytes = min(_MOST_BYTES, max(_ALWAYS_BYTES, _MOST_TIMES * path.stat().st_size))
        with tarfile.open(path, tarinfo=_Member) as tar:
            _extract_members(tar, folder, strip, max_bytes)
            _check_end(tar, max_bytes)
    except OSError as error:
        if error.errno is not None:
            raise FetchError(f"cannot read {path}: {error.strerror}") from error
        raise ArchiveError(f"{path}: a damaged archive ({error})") from error
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise ArchiveError(f"{path}: damaged, or no tar archive ({reason})") from error
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from error
    if not any(item.is_file() for item in folder.rglob("*")):
        raise ArchiveError(f"{path}: no files in it below its top folder")


class _Member(tarfile.TarInfo):
    """A header that is looked at before tarfile reads what it announces into memory."""

    @classmethod
    def frombuf(cls, *args: Any) -> "_Member":
        header = super().frombuf(*args)
        if header.type in _LONG_HEADERS and header.size > _MOST_HEADER_BYTES:
            raise ArchiveError(f"a header of {header.size} bytes; not unpacked")
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise _refusal(header)
        return header


def _refusal(member: tarfile.TarInfo) -> ArchiveError:
    return ArchiveError(f"{member.name!r} is neither a usual file nor a folder; not unpacked")


def _extract_members(tar: tarfile.TarFile, folder: Path, strip: int, max_bytes: int) -> None:
    for member in tar:
        name = _name_inside(member.name, strip)
        if member.size < 0:  # older versions of tarfile would walk backwards, without an end
            raise ArchiveError(f"{member.name!r} has a negative size")
        if not (member.isfile() or member.isdir()) or member.issparse():
            raise _refusal(member)
        _check_size(tar, member.offset_data + member.size, max_bytes)
        if name is None:
            continue
        place = folder / name
        if member.isdir():
            with _placing(place, member.name):
                place.mkdir(exist_ok=True)
        else:
            with tar.extractfile(member) as source:
                _write_new(place, member.name, source)


def _check_size(tar: tarfile.TarFile, size: int, max_bytes: int) -> None:
    """Raises unless an archive may be so large; headers and what is left out count too."""
    if size > max_bytes:
        raise FetchError(
            f"{tar.name}: unpacks to more than {max_bytes / 1e9:g} GB; if that is right, give a "
            "higher --max_unpacked_gb"
        )


def _name_inside(name: str, strip: int) -> PurePosixPath | None:
    """Returns the name without its first `strip` folders, None if nothing is left of it."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts:
        raise ArchiveError(f"{name!r} leaves the folder it is unpacked into; not unpacked")
    return PurePosixPath(*parts[strip:]) if parts[strip:] else None


@contextlib.contextmanager
def _placing(place: Path, name: str) -> Iterator[None]:
    """Makes the folders above `place`; a thing that is there already is the archive's fault."""
    try:
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            yield
    except FetchError as error:
        if isinstance(error.__cause__, (FileExistsError, NotADirectoryError)):
            raise ArchiveError(f"{name!r} is in it twice") from error
        raise


def _write_new(place: Path, name: str, source: BinaryIO) -> None:
    with _placing(place, name), open(place, "xb") as file:
        shutil.copyfileobj(source, file, _CHUNK)
        file.flush()
        os.fsync(file.fileno())


def _check_end(tar: tarfile.TarFile, max_bytes: int) -> None:
    """tarfile takes a damaged header for the end, and stops before the checksum of the
    compressed stream: look for the end mark (a block of zeros), and read to the real end."""
    tar.fileobj.seek(tar.offset)
    block = tar.fileobj.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or block.strip(b"\0"):
        raise ArchiveError("damaged: the mark of its end is missing")
    while tar.fileobj.read(1 << 20):
        _check_size(tar, tar.fileobj.tell(), max_bytes)
