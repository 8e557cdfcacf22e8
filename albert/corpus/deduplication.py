"""Exact de-duplication: a set of 64-bit hashes that takes little memory."""

from __future__ import annotations

import array
import hashlib
import unicodedata


def content_hash(text: str) -> int:
    """Returns a 64-bit hash of a text, the same for any case, width and white space."""
    normalized = " ".join(unicodedata.normalize("NFKC", text).lower().split())
    digest = hashlib.blake2b(normalized.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class HashSet:
    """A set of 64-bit hashes in an array with open addressing, at most 24 bytes for each.

    While it grows, it also needs the old array, half as much. A Python set takes about 100.
    """

    def __init__(self):
        # Zero marks a free slot.
        self._slots = array.array("Q", bytes(8 << 10))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, value: int) -> bool:
        """Adds a hash, and returns whether it is new."""
        if not self._put(self._slots, value or 1):
            return False
        self._count += 1
        if self._count * 3 > len(self._slots) * 2:
            larger = array.array("Q", bytes(16 * len(self._slots)))
            for one in filter(None, self._slots):
                self._put(larger, one)
            self._slots = larger
        return True

    @staticmethod
    def _put(slots: array.array, value: int) -> bool:
        last = len(slots) - 1
        slot = value & last
        while other := slots[slot]:
            if other == value:
                return False
            slot = (slot + 1) & last
        slots[slot] = value
        return True
