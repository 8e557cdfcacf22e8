"""Atomic writing of files, JSON with clear errors, and the paths of the package's own files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from albert.core.errors import FlagError, UserError, reporting

# Storage that TensorFlow's programs may read and write, but these do not; also in absolute paths.
_REMOTE = re.compile(r"(^|/)(gs|s3|hdfs):/")
# Pointers of Git LFS are smaller.
MOST_OF_POINTER = 1024


@contextlib.contextmanager
def temporary_name(path: str) -> Iterator[str]:
    """Yields a temporary name; it becomes `path` at the end, and is removed if the block raises.

    The caller must close the file before the block ends. Raises a `UserError` if the file cannot
    be written, or would replace a device or a pipe.
    """
    check_local(path, path)
    check_regular(path, path)
    folder, name = os.path.split(os.path.abspath(path))
    with reporting(f"{path} cannot be written"):
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        os.close(handle)
        _give_usual_mode(temporary)
    try:
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
    except OSError as e:
        # It may be about other files, as source or target, or name no file.
        if e.errno and (e.filename is None or temporary in (e.filename, e.filename2)):
            raise UserError(f"{path} cannot be written: {e.strerror}") from e
        raise
    finally:
        # It also stays if it and `path` are hard links to the same file.
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


@contextlib.contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """Yields a new folder, which becomes `path` at the end; raises a `UserError` if that exists."""
    check_local(path, path)
    path = os.path.realpath(path)
    if os.path.ismount(path):
        raise UserError(f"{path} is a mount point; give a new folder in it")
    if not os.path.isdir(path) or os.listdir(path):
        check_new(path)
    with reporting(f"{path} cannot be written"):
        parent, name = os.path.split(path)
        os.makedirs(parent, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix=f".{name}.", dir=parent)
    try:
        yield temporary
        for name in os.listdir(temporary):
            _give_usual_mode(os.path.join(temporary, name))
            flush(os.path.join(temporary, name))
        _give_usual_mode(temporary, 0o777)
        os.replace(temporary, path)
    except BaseException as e:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(e, OSError) and e.errno is not None:
            is_there = e.errno in (errno.ENOTEMPTY, errno.EEXIST)
            what = "another process has made it" if is_there else e.strerror
            raise UserError(f"{path} cannot be written: {what}") from e
        raise


def temporary_names(pattern: str) -> str:
    """Returns a pattern for the temporary names of files whose names match a pattern."""
    # Only names that mkstemp makes: other files that begin like this belong to other programs.
    return rf"\.(?:{pattern})\.[a-z0-9_]{{8}}"


def remove_temporary_files(path: str) -> None:
    """Removes what processes left that were killed while they wrote the file or folder `path`."""
    folder, name = os.path.split(os.path.abspath(path))
    leftover = temporary_names(re.escape(name))
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        if re.fullmatch(leftover, entry):
            one = os.path.join(folder, entry)
            shutil.rmtree(one) if os.path.isdir(one) else os.remove(one)


@contextlib.contextmanager
def open_atomically(path: str, mode: str = "w") -> Iterator[IO]:
    """Opens `path` for writing; the old content stays until the end; raises a `UserError`."""
    encoding = None if "b" in mode else "utf-8"
    with temporary_name(path) as temporary, open(temporary, mode, encoding=encoding) as file:
        yield file


def write_json(path: str, value: Any, indent: int | None = 2) -> None:
    """Writes a value as JSON, atomically."""
    with open_atomically(path) as file:
        file.write(json.dumps(value, indent=indent) + "\n")


def write_members(
    path: str, members: Iterable[tuple[str, Any]], encode: Callable[[Any], str] = json.dumps
) -> None:
    """Writes an object as `write_json` does with an indent of 4, one member at a time.

    `encode` returns the JSON of a value, indented; the default is for texts and numbers.
    """
    with open_atomically(path) as file:
        before = "{"
        for key, value in members:
            file.write(f"{before}\n    {json.dumps(key)}: {encode(value)}")
            before = ","
        file.write("{}\n" if before == "{" else "\n}\n")


def copy_atomically(source: str, target: str) -> None:
    """Copies a file, with a hard link if the file system supports it, to save space and time."""
    with temporary_name(target) as temporary:
        try:
            os.remove(temporary)
            os.link(os.path.realpath(source), temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def sha256_of(path: str) -> str:
    """Returns the SHA-256 of a file's content as a hexadecimal string."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def content_of(path: str) -> str:
    """Returns a digest of a file's content, not of its path; raises a `UserError` if unreadable."""
    check_regular(path, path)
    with reporting(f"{path} cannot be read"):
        return "sha256:" + sha256_of(path)[:16]


def read_bytes(path: str) -> bytes:
    """Returns a file's content; raises a `UserError` if it cannot be read."""
    check_regular(path, path)
    with reporting(f"{path} cannot be read"), open(path, "rb") as file:
        content = file.read()
    if len(content) < MOST_OF_POINTER and content.startswith(b"version https://git-lfs"):
        raise UserError(f"{path} is a pointer of Git LFS, not the file: run `git lfs pull`")
    return content


def check_readable(path: str, what: str) -> None:
    """Raises a `UserError` that names `what` unless `path` is a readable file."""
    if os.path.isdir(path):
        raise UserError(f"{what} {path} is a folder, not a file")
    check_regular(path, f"{what} {path}")
    with reporting(f"{what} {path} cannot be read"), open(path, "rb"):
        pass


def file_of_split(folder: str, split: str) -> str:
    """Returns the file of a split in a folder, such as train.csv; "" if it does not exist.

    Raises a `UserError` if there are several. Feature files, such as train.tf_record, do not count.
    """
    with reporting(f"{folder} cannot be read"):
        names = sorted(os.listdir(folder))
    ending = re.compile(r"\.(csv|tsv|jsonl?|parquet|arrow|feather|conll|txt)(\.gz)?")
    own = [n for n in names if n.startswith(split) and ending.fullmatch(n[len(split) :])]
    if len(own) > 1:
        raise UserError(f"{folder} has {' and '.join(own)}; keep one of them")
    return os.path.join(folder, own[0]) if own else ""


def check_new(path: str) -> None:
    """Raises a `UserError` if a path exists, even as a link to a missing file."""
    if os.path.lexists(path):
        raise UserError(f"{path} already exists; give another name, or remove it")


def check_regular(path: str, what: str) -> None:
    """Raises a `UserError` if a path is a device, or a pipe, which would block."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise UserError(f"{what} is not a regular file")


def check_local(path: str, what: str) -> None:
    """Raises a `FlagError` for a path in remote storage, which would become a folder "gs:" here."""
    if _REMOTE.search(os.fspath(path)):
        raise FlagError(
            f"{what}: paths are those of this machine; copy inputs here first, and results from "
            "here"
        )


def existing_folder(path: str) -> str:
    """Returns the path if it exists, or its nearest existing parent."""
    path = os.path.abspath(path)
    return path if os.path.exists(path) else existing_folder(os.path.dirname(path))


def check_can_be_written(path: str, what: str) -> None:
    """Raises a `UserError` if `make_writable_folder` would; makes no folder."""
    existing = existing_folder(path)
    if not os.path.isdir(existing):
        raise UserError(f"{what} {path} cannot be written: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"{what} {path} cannot be written: no permission in {existing}")


def make_writable_folder(path: str, what: str) -> None:
    """Makes a folder; raises a `UserError` if it or a file in it cannot be written."""
    check_local(path, f"{what} {path}")
    with reporting(f"{what} {path} cannot be written"):
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass


def flush(path: str) -> None:
    """Waits until a file's content is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give_usual_mode(path: str, mode: int = 0o666) -> None:
    """Gives a file the mode that `open` would give it; mkstemp lets only the owner read it."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, mode & ~mask)


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def packaged(path: str) -> str:
    """Returns a path; for configs/ and bf16_config/, the package's if it does not exist here."""
    if path.startswith(("configs/", "bf16_config/")) and not os.path.exists(path):
        return resource(path) if os.path.exists(resource(path)) else path
    return path


def resource(name: str) -> str:
    """Returns the path of a file or folder that comes with the package, such as "configs"."""
    # In a wheel, it is inside the package; in a clone, next to the package.
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.exists(inside) else os.path.join(os.path.dirname(PACKAGE), name)


def command(*words: str) -> list[str]:
    """Returns a command line that runs a command of `albert` from any folder."""
    return [sys.executable, PACKAGE, *words]


def read_json(path: str, what: str, make_object: Callable[[list], Any] | None = None) -> Any:
    """Reads a JSON file, which may begin with a byte order mark; `what` describes it in messages.

    `make_object` converts the pairs of an object; None makes a dictionary. Raises a `UserError` if
    the file cannot be read, or is not JSON in UTF-8.
    """
    check_readable(path, what)
    return parse_json(read_bytes(path), f"{what} {path}", make_object)


def read_object(path: str, what: str) -> dict[str, Any]:
    """Reads a JSON object; raises a `UserError` for any other content, and as `read_json` does."""
    if not isinstance(content := read_json(path, what), dict):
        raise UserError(f"{path}: {what} is not a JSON object")
    return content


def parse_json(
    text: str | bytes, what: str, make_object: Callable[[list], Any] | None = None
) -> Any:
    """Parses JSON; see `read_json` for arguments and errors. All that parses JSON calls this."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=make_object)
    except UserError:
        raise
    except UnicodeDecodeError as e:
        raise UserError(f"{what} is not UTF-8: byte {e.start}") from e
    except ValueError as e:
        raise UserError(f"{what} is not JSON: {e}") from e
    except RecursionError as e:
        raise UserError(f"{what} cannot be parsed: its JSON is nested too deeply") from e


def print_json(value: Any, indent: int | None = None) -> None:
    """Prints a value as JSON that every parser accepts, and flushes standard output.

    Numbers that are not finite become null, and lone surrogates become U+FFFD. Other characters are
    escaped unless standard output is UTF-8.
    """
    is_utf8 = sys.stdout.encoding.lower() == "utf-8"
    print(strict_json(value, indent, ensure_ascii=not is_utf8), flush=True)


def strict_json(value: Any, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """Returns a value as JSON that every parser accepts; see `print_json`."""
    return json.dumps(_strict(value), ensure_ascii=ensure_ascii, allow_nan=False, indent=indent)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_strict(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
