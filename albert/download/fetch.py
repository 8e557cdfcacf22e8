"""Downloads a file over HTTP, and resumes the download after an interruption."""

import contextlib
import os
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import requests
import urllib3
from tqdm import tqdm

from albert.core.errors import UserError
from albert.core.files import check_local, flush, sha256_of
from albert.core.locks import exclusive
from albert.core.log import LOG
from albert.core.text import one_line
from albert.download.published import PUBLISHED

CHUNK = 1 << 16  # bytes
TRIES = 6  # consecutive attempts without a new byte
FIRST_WAIT = 1.0  # seconds; each wait is twice the one before
TIMEOUT = 30.0  # seconds of silence after which a connection counts as lost
MOST_BYTES = 20 * 10**9  # of a file whose length nobody announces


class _Transient(Exception):
    """A failure after which another attempt may succeed."""


@contextlib.contextmanager
def making(path: Path) -> Iterator[None]:
    """Locks `path` and makes its folder; raises a `UserError` if the block cannot read or write."""
    check_local(str(path), str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(exclusive(str(path)))
            except UserError as error:  # without write access, what is needed may still exist
                LOG.info("%s; continuing without a lock", error)
            yield
    except OSError as error:
        advice = "check this path, your permissions and the free disk space, and run again"
        raise UserError(f"{error.filename or path}: {error.strerror}; {advice}") from error


def fetch(url: str, path: Path, sha256: str | None = None, size: int | None = None) -> str:
    """Downloads `url` to `path`, in an existing folder; returns its SHA-256 in hexadecimal.

    An existing file is replaced only after the new one has passed the checks: `sha256` in
    hexadecimal, and `size` in bytes, by default what the server announces, or 20 GB. An interrupted
    download leaves its bytes in `path` + ".part". The next call, in this process or another,
    resumes from there; `making` keeps other processes away. If the file has changed since, only
    `sha256` or the checksums of an archive show it. Raises a `UserError` if the server refuses, the
    network stays down, or the content, which is then removed, is not as expected.
    """
    part = Path(f"{path}.part")
    failures, longest = 0, _length(part)
    while True:
        try:
            _receive_rest(url, part, size)
            break
        except _Transient as error:
            # A connection that breaks often but makes progress may take as long as it needs. A
            # server that always stops at the same byte may not.
            failures = 1 if _length(part) > longest else failures + 1
            longest = max(longest, _length(part))
            if failures >= TRIES:
                advice = f"gave up after {TRIES} attempts; check the network, and run again"
                raise UserError(f"{url}: {error}; {advice}") from error
            wait = FIRST_WAIT * 2 ** (failures - 1)
            LOG.info("%s: %s; trying again in %.3g s", url, error, wait)
            time.sleep(wait)
    length, digest = _length(part), sha256_of(str(part))
    for what, actual, expected in (("length", length, size), ("SHA-256", digest, sha256)):
        if expected not in (None, actual):
            part.unlink()
            problem = f"{what} is {actual}, expected {expected}; the file was removed"
            raise UserError(f"{url}: {problem}; run again, or use another mirror")
    flush(str(part))
    os.replace(part, path)
    return digest


def fetch_published(name: str, path: Path, mirror: str | None) -> None:
    """Downloads a published file, from a mirror if one is given, and checks it; see `fetch`."""
    file = PUBLISHED[name].on(mirror)
    fetch(file.url, path, file.sha256, file.size)


def _length(part: Path) -> int:
    """Returns the number of bytes so far."""
    return part.stat().st_size if part.exists() else 0


def _receive_rest(url: str, part: Path, size: int | None) -> None:
    """Tries once to download the missing bytes; raises `_Transient` if another try may help."""
    offset = _length(part)
    # Without an identity encoding, a server may compress the response, whose length and ranges are
    # then not those of the file.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            code, told = response.status_code, response.headers.get("Content-Range", "")
            if code == 416 and told.replace(" ", "") == f"bytes*/{offset}":
                return  # A killed run had received all bytes.
            if code in (408, 429) or code >= 500:
                raise _Transient(f"HTTP {code}")
            is_rest = code == 206 and told.startswith(f"bytes {offset}-")
            if offset and code in (206, 416) and not is_rest:
                part.unlink()
                raise _Transient("the server has no rest of the partial download")
            if code != 200 and not (offset and is_rest):
                raise UserError(f"{url}: HTTP {code}; check the address")
            _receive(url, part, response, size)
    except UserError:
        raise
    # For some redirects, requests raises a plain ValueError.
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        cause: BaseException = error
        while inner := cause.__cause__ or cause.__context__:  # the system's error is the innermost
            cause = inner
        reason = one_line(str(cause)) or type(cause).__name__
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason += "; check this machine's clock, or name your site's certificates in "
            raise UserError(f"{url}: {reason}REQUESTS_CA_BUNDLE") from error
        if isinstance(error, ValueError):
            raise UserError(f"{url}: {reason}; check the address") from error
        raise _Transient(reason) from error


def _receive(url: str, part: Path, response: requests.Response, size: int | None) -> None:
    had = _length(part) if response.status_code == 206 else 0
    length = response.headers.get("Content-Length", "")
    total = had + int(length) if length.isdecimal() else size
    if size not in (None, total):
        problem = f"the server announces {total} bytes, expected {size}"
        raise UserError(f"{url}: {problem}; check the address, or use another mirror")
    name = part.stem
    LOG.info("Downloading %s%s", name, f" from byte {had}" if had else "")
    limit = MOST_BYTES if total is None else total
    scale = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
    bar = tqdm(desc=name, initial=had, total=total, disable=None, **scale)
    with bar, open(part, "ab" if had else "wb") as file:
        # read1 returns the bytes that have arrived instead of waiting for a full chunk, so that no
        # bytes are lost if the connection breaks.
        while file.tell() <= limit and (chunk := response.raw.read1(CHUNK)):
            file.write(chunk)
            bar.update(len(chunk))
    if _length(part) > limit:
        part.unlink()
        problem = f"the server sends more than {limit} bytes; the file was removed"
        raise UserError(f"{url}: {problem}; check the address, or use another mirror")
    if total is not None and _length(part) < total:
        raise _Transient(f"the connection ended after {_length(part)} of {total} bytes")
