"""What datasets' publishers offer."""

from pathlib import Path
from typing import NamedTuple


class PublishedFile(NamedTuple):
    """What is known of a file: SHA-256 in hexadecimal, size in bytes, address."""

    sha256: str
    size: int
    url: str

    def on(self, mirror: str | None) -> "PublishedFile":
        """Returns the same file in a folder of a mirror, if one is given."""
        name = self.url.rpartition("/")[2]
        return self._replace(url=join_url(mirror, name)) if mirror else self


def join_url(base: str, name: str) -> str:
    """Returns `base` and `name` with exactly one slash between them."""
    return f"{base.rstrip('/')}/{name}"


def _read(path: Path) -> dict[str, PublishedFile]:
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    files = [PublishedFile(sha256, int(size), url) for sha256, size, url in rows]
    return {file.url.rpartition("/")[2]: file for file in files}


# By the name of the file.
PUBLISHED = _read(Path(__file__).with_name("published.txt"))
