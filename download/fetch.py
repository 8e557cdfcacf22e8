"""Fetches a file over HTTP so that a broken line costs only what is still missing."""

import contextlib
import datetime
import email.utils
import fcntl
import hashlib
import http.client
import json
import logging
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any, BinaryIO

from download.command import FetchError, check_address, sync_folder, writing

logger = logging.getLogger(__name__)

_CHUNK = 1 << 16  # bytes
_LOG_EVERY = 10.0  # seconds between progress lines where there is no terminal
# A connection that brings less counts as lost; in bytes a second, looked at every so many seconds.
_LEAST_RATE, _RATE_EVERY = 1000, 60.0


class _Transient(Exception):
    """A failure that may be gone at the next try. `wait`: seconds the server asked for."""

    def __init__(self, reason: str, wait: float = 0.0):
        super().__init__(reason)
        self.wait = wait


class _TooSlow(_Transient):
    """A connection that brings next to nothing, which may go on for ever."""


def fetch(
    url: str,
    path: str | os.PathLike[str],
    sha256: str | None = None,
    size: int | None = None,
    *,
    tries: int = 6,
    retry_wait: float = 1.0,
    max_wait: float = 60.0,
    timeout: float = 30.0,
) -> None:
    """Fetches `url` into `path`; a file that is there is replaced once the new one is proven.

    The bytes so far lie in `path` + ".part" and are taken up by the next call, in this process
    or another. Two processes that fetch the same file: the second waits for the first and takes
    what it made. On a file system without locks both write the same ".part", and one of them may
    fail; what they mixed up does not pass `sha256`, and the rename gives `path` all or nothing.

    Args:
        url: http or https address.
        path: the file to make; missing folders above it are made too.
        sha256: expected hash, in hexadecimal, or None for no check.
        size: expected length in bytes, or None for no check beyond what the server announces.
        tries: tries in a row that may end without a new byte, or for slowness.
        retry_wait: seconds before the second try; doubled for each one after that.
        max_wait: upper bound in seconds of any wait, one that the server asks for included.
        timeout: seconds of silence after which a connection counts as lost.

    Raises:
        FetchError: the server refuses, the network stays down, the content is not the expected
            one (the ".part" is removed), or the disk cannot be written.
    """
    try:
        check_address(url)
    except ValueError as error:
        raise FetchError(f"{error}; correct the address") from error
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(_Partial(path, url)) as partial:
        if partial.waited and os.path.isfile(path) and sha256 in (None, file_sha256(path)):
            return
        _fetch_with_retries(partial, size, tries, retry_wait, max_wait, timeout)
        _verify(partial, sha256, size)
        partial.publish(path)


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 of a file in hexadecimal; raises FetchError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise FetchError(f"cannot read {path}: {error.strerror}; move it away") from error
    return digest.hexdigest()


def join_url(base: str, name: str) -> str:
    """Returns `base` and `name` with exactly one slash between them."""
    return f"{base.rstrip('/')}/{name}"


class _Partial:
    """The bytes so far (".part"), and beside them what tells one version of the file on the
    server from the next (".part.json": the URL and its ETag or Last-Modified)."""

    def __init__(self, path: Path, url: str):
        self.url = url
        self.path = Path(f"{path}.part")
        self.note = Path(f"{path}.part.json")
        self.waited = False
        with writing(self.path):
            self.file = self._open_locked()

    def _open_locked(self) -> BinaryIO:
        while True:
            file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
            try:
                self._lock(file)
                # While this process waited, the holder may have renamed or removed the file it
                # has open: writing on would then change the finished file.
                if os.path.samestat(os.fstat(file.fileno()), os.stat(self.path)):
                    return file
            except FileNotFoundError:
                pass
            except BaseException:
                file.close()
                raise
            file.close()

    def _lock(self, file: BinaryIO) -> None:
        """Locks the file until it is closed; a process that dies gives its lock back."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.waited = True
            logger.info("waiting for another process that writes %s", self.path)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            logger.info("%s cannot be locked (%s); going on", self.path, error.strerror)

    def length(self) -> int:
        """Returns the number of bytes so far."""
        return os.fstat(self.file.fileno()).st_size

    def validator(self) -> tuple[str, str] | None:
        """Returns the header and value that name the version these bytes are of, if known."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            known = note["url"] == self.url
            return (str(note["header"]), str(note["value"])) if known else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def restart(self, validator: tuple[str, str] | None) -> None:
        """Drops the bytes so far. The note is written while there is nothing it could be wrong
        about: a process killed in between leaves an empty file."""
        with writing(self.path):
            self.file.seek(0)
            self.file.truncate()
            self.note.unlink(missing_ok=True)
            if validator:
                note = {"url": self.url, "header": validator[0], "value": validator[1]}
                self.note.write_text(json.dumps(note), encoding="utf-8")

    @contextlib.contextmanager
    def appending(self) -> Iterator[Callable[[bytes], None]]:
        """Gives a function that adds bytes at the end; all are in the file afterwards."""

        def append(chunk: bytes) -> None:
            with writing(self.path):
                self.file.write(chunk)

        self.file.seek(0, os.SEEK_END)
        try:
            yield append
        finally:
            with writing(self.path):
                self.file.flush()

    def publish(self, path: Path) -> None:
        """Gives the file its final name, with its bytes on the disk before the name is."""
        with writing(path):
            os.fsync(self.file.fileno())
            os.replace(self.path, path)
            sync_folder(path.parent)
            self.note.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the lock; an empty file is of no use to anybody and goes."""
        with contextlib.suppress(OSError):
            if self.length() == 0:
                self.path.unlink(missing_ok=True)
                self.note.unlink(missing_ok=True)
        # The bytes were flushed, and a failure to do so was reported, when they were written.
        with contextlib.suppress(OSError):
            self.file.close()


def _fetch_with_retries(
    partial: _Partial,
    size: int | None,
    tries: int,
    retry_wait: float,
    max_wait: float,
    timeout: float,
) -> None:
    failures, longest = 0, partial.length()
    while True:
        try:
            return _try_once(partial, size, timeout)
        except _Transient as error:
            # A line that breaks often but brings something each time may take as long as it
            # needs; a server that always cuts at the same byte may not.
            if partial.length() > longest and not isinstance(error, _TooSlow):
                failures, longest = 0, partial.length()
            failures += 1
            if failures >= tries:
                raise FetchError(
                    f"{partial.url}: {error}; gave up after {tries} tries in a row; check the "
                    "network, then run the same command again"
                ) from error
            wait = min(max(retry_wait * 2 ** (failures - 1), error.wait), max_wait)
            logger.info("%s: %s; trying again in %.3g s", partial.url, error, wait)
            time.sleep(wait)


def _try_once(partial: _Partial, size: int | None, timeout: float) -> None:
    """Sorts what may go wrong into what is worth another try and what is not."""
    url = partial.url
    try:
        _request(partial, size, timeout)
    except urllib.error.HTTPError as error:
        with error:
            status = f"HTTP {error.code} {error.reason}"
            if error.code in (408, 429) or error.code >= 500:
                raise _Transient(status, _retry_after(error.headers)) from error
            raise FetchError(f"{url}: {status}; check the address") from error
    except (http.client.InvalidURL, ValueError) as error:
        raise FetchError(f"{url}: not a usable address ({error}); correct it") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise FetchError(
                f"{url}: {reason}; check the clock of this machine, or name your site's "
                "certificates in SSL_CERT_FILE"
            ) from error
        raise _Transient(str(reason)) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to other web addresses; urllib would follow it to ftp:// too."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str):
        fp.close()  # or urllib reads all that comes with the redirection
        try:
            check_address(newurl)
        except ValueError as error:
            raise FetchError(f"{req.full_url}: redirected, but not followed: {error}") from error
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _request(partial: _Partial, size: int | None, timeout: float) -> None:
    # Without an identity encoding a server may compress on the fly, and then neither the
    # length nor the ETag is that of the file.
    headers = {"Accept-Encoding": "identity", "User-Agent": "albert-download"}
    validator = partial.validator()
    offset = partial.length() if validator else 0
    if offset and validator:
        headers.update({"Range": f"bytes={offset}-", "If-Range": validator[1]})
    request = urllib.request.Request(partial.url, headers=headers)
    try:
        response = urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not offset:
            raise
        with error:
            return _check_nothing_left(partial, offset, error.headers)
    with response:
        if response.status == 206 and offset:
            total = _check_range(partial, offset, response)
            _check_announced(partial.url, total, size)
        elif response.status == 200:
            total = response.length
            _check_announced(partial.url, total, size)
            if offset:
                logger.info("%s: cannot go on from byte %d, starting over", partial.url, offset)
            partial.restart(_validator_of(response.headers))
        else:
            raise FetchError(f"{partial.url}: HTTP {response.status} is no file; check the address")
        _receive(partial, response, size if total is None else total)


def _receive(partial: _Partial, response: http.client.HTTPResponse, total: int | None) -> None:
    name = partial.path.name.removesuffix(".part")
    pace = _Pace()
    with partial.appending() as append, _Progress(name, partial.length(), total) as progress:
        # read1 hands over what has come instead of waiting for a full chunk, so that a line
        # that breaks loses nothing.
        while chunk := response.read1(_CHUNK):
            append(chunk)
            progress.update(len(chunk))
            pace.check(len(chunk))
    if total is not None and partial.length() < total:
        raise _Transient(f"the connection ended after {partial.length()} of {total} bytes")


class _Pace:
    """How fast bytes come, from time to time."""

    def __init__(self):
        self.since, self.count = time.monotonic(), 0

    def check(self, count: int) -> None:
        """Adds bytes that have come; raises _TooSlow if they are too few for the time."""
        self.count += count
        seconds = time.monotonic() - self.since
        if seconds < _RATE_EVERY:
            return
        if self.count < _LEAST_RATE * seconds:
            raise _TooSlow(f"only {self.count} bytes came in {seconds:.3g} s")
        self.since, self.count = time.monotonic(), 0


def _check_range(partial: _Partial, offset: int, response: http.client.HTTPResponse) -> int | None:
    """Returns the length in bytes of the whole file that the rest belongs to.

    Raises _Transient, with nothing kept, if the rest is of another version (there are servers
    that ignore If-Range) or begins elsewhere.
    """
    header, value = partial.validator() or ("ETag", "")
    match = re.match(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    same_version = response.headers.get(header) in (None, value)
    if match is None or int(match[1]) != offset or not same_version:
        partial.restart(None)
        raise _Transient("what the server has now does not continue what is here")
    if match[2] != "*":
        return int(match[2])
    return None if response.length is None else offset + response.length


def _check_nothing_left(partial: _Partial, offset: int, headers: Message) -> None:
    """Returns if the server refuses the range because the file ends where it begins: an earlier
    run was killed after the last byte. Otherwise nothing is kept, and _Transient raised."""
    if headers.get("Content-Range", "").replace(" ", "") == f"bytes*/{offset}":
        return
    partial.restart(None)
    raise _Transient("the file on the server is shorter than what is here")


def _check_announced(url: str, total: int | None, size: int | None) -> None:
    if None not in (total, size) and total != size:
        raise FetchError(
            f"{url}: the server announces {total} bytes, expected {size}; "
            "check the address, or take another mirror"
        )


def _verify(partial: _Partial, sha256: str | None, size: int | None) -> None:
    length = partial.length()
    got = file_sha256(partial.path) if sha256 else None
    if size is not None and length != size:
        problem = f"length is {length} bytes, expected {size}"
    elif got != (sha256 and sha256.lower()):
        problem = f"SHA-256 is {got}, expected {sha256}"
    else:
        return
    partial.restart(None)
    raise FetchError(
        f"{partial.url}: {problem}; nothing is kept; run again, or take another mirror"
    )


def _validator_of(headers: Message) -> tuple[str, str] | None:
    # RFC 9110, 13.1.5: If-Range takes no weak ETag, which need not change with every byte.
    etag = headers.get("ETag")
    if etag and not etag.startswith("W/"):
        return "ETag", etag
    modified = headers.get("Last-Modified")
    return ("Last-Modified", modified) if modified else None


def _retry_after(headers: Message) -> float:
    """Returns the seconds of a Retry-After header (a number or a date), 0 without a usable one."""
    value = (headers.get("Retry-After") or "").strip()
    if value.isdecimal():
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
        date = date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)
    except (TypeError, ValueError, IndexError):
        return 0.0
    return max(0.0, date.timestamp() - time.time())


class _Progress:
    """A bar on a terminal, a log line now and then anywhere else. Counts bytes."""

    def __init__(self, name: str, done: int, total: int | None):
        self.name, self.done, self.total = name, done, total
        self.logged = time.monotonic()
        self.bar = self._make_bar() if sys.stderr.isatty() else None
        if self.bar is None:
            logger.info("%s: %s", name, f"going on from byte {done}" if done else "fetching")

    def _make_bar(self) -> Any:
        try:
            from tqdm import tqdm
        except ImportError:  # a login node may not have it: log lines do
            return None
        scale = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
        return tqdm(desc=self.name, initial=self.done, total=self.total, **scale)

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def update(self, count: int) -> None:
        self.done += count
        if self.bar is not None:
            self.bar.update(count)
        elif time.monotonic() - self.logged >= _LOG_EVERY:
            self.logged = time.monotonic()
            of = f" of {self.total / 2**20:.1f}" if self.total else ""
            logger.info("%s: %.1f%s MiB", self.name, self.done / 2**20, of)
