"""Files that several processes make together, each file by one of them.

The processes need nothing but a file system that they share. A process takes a file by its lock.
If it is killed, its locks expire, and others take its files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.locks import Claim
from albert.data.cached_file import CachedFile
from albert.distributed import launcher

# Seconds between two looks at files that other processes make.
_POLL_SECONDS = 0.5
# Another process may be between two files for this long.
_IDLE_SECONDS = 4.0


class Claims:
    """The files of all processes, as one of them sees them; a context that releases all locks.

    Each worker of a job begins with its own part of the files, so that the workers rarely meet, and
    continues with the parts of the others. It checks the content of existing files only in its own
    part. A file that appears meanwhile was checked by the process that made it.

    Methods refer to `files` by their numbers; `summaries` has the finished files' by number.
    """

    def __init__(self, files: Sequence[CachedFile]):
        """Raises a `UserError` if another program's file has the name of one of the files."""
        for file in files:
            if file.is_foreign():
                raise UserError(
                    f"{file.paths[0]} exists and was not written by this program, which does not "
                    "replace it; pass another name or remove the file"
                )
        rank, size, count = launcher.started.rank, launcher.started.size, len(files)
        self.files = files
        self.summaries: dict[int, dict] = {}
        self._own = range(rank * count // size, (rank + 1) * count // size)
        self._before = [file.header_state() for file in files]
        self._failures: dict[int, UserError] = {}
        # One for each file that this process holds or has found held, see `Claim`.
        self._claims: dict[int, Claim] = {}
        # When another process held a file, or may have been about to take its first one.
        self._last_held = time.monotonic() if size > 1 else -math.inf

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_) -> None:
        for claim in self._claims.values():
            claim.release()

    def unfinished(self) -> list[int]:
        """Returns the numbers of the files that are not finished, this process's part first."""
        start, count = self._own.start, len(self.files)
        order = (*range(start, count), *range(start))
        return [number for number in order if number not in self.summaries]

    def taken(self) -> Iterator[int]:
        """Takes the unfinished files that no other process holds, each when the caller asks for it.

        Never waits, because the caller may hold files that other processes wait for.
        """
        yield from filter(self._take, self.unfinished())

    def finish(self, number: int, summary: dict) -> None:
        """Notes that a file is finished, and releases it."""
        self.summaries[number] = summary
        self._claims.pop(number).release()

    def release(self, number: int) -> None:
        """Releases a file that was not made; any process may take it, this one too."""
        self._claims[number].release()

    def mark_failed(self, number: int, error: UserError) -> None:
        """Notes that this process cannot make a file, and leaves it to the others."""
        is_known = number in self._failures
        self._failures[number] = error
        self.release(number)
        if not is_known and any(other not in self._failures for other in self.unfinished()):
            tf.logging.warning("%s. Continuing with the other files", error)

    def wait(self) -> None:
        """Waits a moment if files are not finished, which other processes then hold.

        Raises:
          UserError: this process failed to make the files that are left, and no other makes them.
        """
        left = self.unfinished()
        is_idle = time.monotonic() - self._last_held > _IDLE_SECONDS
        if left and self._failures.keys() >= set(left) and is_idle:
            more = f" ({len(left)} files were not made)" if len(left) > 1 else ""
            # Only the last failure has not been logged.
            last = [number for number in self._failures if number in left][-1]
            raise UserError(f"{self._failures[last]}{more}")
        if left:
            time.sleep(_POLL_SECONDS)

    def _take(self, number: int) -> bool:
        """Takes a file if no other process holds it; returns whether to make it."""
        file = self.files[number]
        claim = self._claims.setdefault(number, Claim(file.paths[0]))
        try:
            if not claim.take():
                self._last_held = time.monotonic()
                return False
            is_new = file.header_state() != self._before[number]
            if is_new:
                file.check_source()
            summary = file.reusable(
                explain=number not in self._failures,
                check_content=number in self._own and not is_new,
            )
        except UserError as e:
            self.mark_failed(number, e)
            return False
        if summary is not None:
            self.finish(number, summary)
            return False
        if number in self._failures:
            self.release(number)
            return False
        return True
