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
from typing import BinaryIO

from download.command import FetchError, sync_folder, writing

_CHUNK = 1 << 16  # bytes

# What tarfile and the decompressors raise for broken bytes.
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError)


class ArchiveError(FetchError):
    """The archive itself is at fault: damaged, no archive, or with members that are refused."""


def extract_tar(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    strip_components: int = 1,
    *,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Unpacks a tar archive, compressed or not, into the new folder `target`.

    The archive is not trusted: a member that would land outside, a link that points outside, a
    device or a fifo ends the extraction. Owners and modes are not taken over: files and folders
    get those that this process gives to new ones. All happens in a temporary folder beside
    `target`, which gets its name at the very end.

    Args:
        path: the archive.
        target: the folder to make; it must be absent or empty.
        strip_components: leading folders to take off each name; files not so deep are left out.
        finish: called with the unpacked folder before it gets its name.

    Raises:
        ArchiveError: the archive is damaged or refused.
        FetchError: the archive cannot be read or the folder cannot be written.
        Nothing is left behind in either case.
    """
    path, target = Path(path), Path(target)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        # The final name one level down: a link like "../<name>/file" means the same before and
        # after the rename; and mkdir, unlike mkdtemp, gives the folder the usual mode.
        folder = scratch / target.name
        with writing(folder):
            folder.mkdir()
        _extract_checked(path, folder, strip_components)
        if finish is not None:
            finish(folder)
        with writing(target):
            os.rename(folder, target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _extract_checked(path: Path, folder: Path, strip: int) -> None:
    try:
        with tarfile.open(path) as tar:
            _extract_members(tar, folder, strip)
            _check_end(tar)
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


def _extract_members(tar: tarfile.TarFile, folder: Path, strip: int) -> None:
    symlinks = []
    for member in tar:
        name = _name_inside(member.name, strip)
        if member.size < 0:  # older versions of tarfile would walk backwards, without an end
            raise ArchiveError(f"{member.name!r} has a negative size")
        if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
            raise ArchiveError(f"{member.name!r} is neither file, folder nor link; not unpacked")
        if name is None:
            continue
        place = folder / name
        if member.issym():
            # Links are made last: until then no name can lead a write out of the folder.
            symlinks.append((place, member))
        elif member.isdir():
            with _placing(place, member.name):
                place.mkdir(exist_ok=True)
        elif member.islnk():
            _copy_hardlink(folder, place, member, strip)
        else:
            with tar.extractfile(member) as source:
                _write_new(place, member.name, source)
    _make_symlinks(folder, symlinks)


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


def _copy_hardlink(folder: Path, place: Path, member: tarfile.TarInfo, strip: int) -> None:
    name = _name_inside(member.linkname, strip)
    source = None if name is None else folder / name
    if source is None or not source.is_file():
        raise ArchiveError(f"{member.name!r} links to {member.linkname!r}, which is not in it")
    with open(source, "rb") as file:
        _write_new(place, member.name, file)


def _make_symlinks(folder: Path, symlinks: list[tuple[Path, tarfile.TarInfo]]) -> None:
    root = Path(os.path.realpath(folder))

    def check(place: Path, member: tarfile.TarInfo) -> None:
        if not Path(os.path.realpath(place)).is_relative_to(root):
            raise ArchiveError(
                f"{member.name!r} leads to {member.linkname!r}, outside of the folder it is "
                "unpacked into; not unpacked"
            )

    for place, member in symlinks:
        check(place.parent, member)
        with _placing(place, member.name):
            place.symlink_to(member.linkname)
    # Only now: what a link leads to may depend on links that came after it.
    for place, member in symlinks:
        check(place, member)


def _check_end(tar: tarfile.TarFile) -> None:
    """tarfile takes a damaged header for the end, and stops before the checksum of the
    compressed stream: look for the end mark (a block of zeros), and read to the real end."""
    tar.fileobj.seek(tar.offset)
    block = tar.fileobj.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or block.strip(b"\0"):
        raise ArchiveError("damaged: the mark of its end is missing")
    while tar.fileobj.read(1 << 20):
        pass
