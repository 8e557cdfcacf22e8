"""The published files of datasets, and the published models by name."""

from pathlib import Path
from typing import NamedTuple


class PublishedFile(NamedTuple):
    """A published file: SHA-256 in hexadecimal and size in bytes, if known, and address."""

    sha256: str | None
    size: int | None
    url: str

    def on(self, mirror: str | None) -> "PublishedFile":
        """Returns the same file with its address on a mirror, if `mirror` is given."""
        name = self.url.rpartition("/")[2]
        return self._replace(url=join_url(mirror, name)) if mirror else self


def join_url(base: str, name: str) -> str:
    """Returns `base` and `name` with exactly one slash between them."""
    return f"{base.rstrip('/')}/{name}"


def _read(path: Path) -> dict[str, PublishedFile]:
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    files = [PublishedFile(sha256, int(size), url) for sha256, size, url in rows]
    return {file.url.rpartition("/")[2]: file for file in files}


# The keys are the names of the files.
PUBLISHED = _read(Path(__file__).with_name("published.txt"))

_ALBERT = "https://storage.googleapis.com/albert_models/"
_BERT = "https://storage.googleapis.com/bert_models/"
# Google's archives; the keys are the names in `configs/`. `zh` means Chinese.
MODELS = {
    f"albert_{size}_{version}": f"{_ALBERT}albert_{size}_{version}.tar.gz"
    for size in ("base", "large", "xlarge", "xxlarge")
    for version in ("v1", "v2", "zh")
}
MODELS |= {
    f"bert_{name}": f"{_BERT}{date}/{archive}.zip"
    for name, date, archive in (
        ("base_uncased", "2018_10_18", "uncased_L-12_H-768_A-12"),
        ("large_uncased", "2018_10_18", "uncased_L-24_H-1024_A-16"),
        ("base_cased", "2018_10_18", "cased_L-12_H-768_A-12"),
        ("large_cased", "2018_10_18", "cased_L-24_H-1024_A-16"),
        ("base_multilingual_cased", "2018_11_23", "multi_cased_L-12_H-768_A-12"),
        ("base_multilingual_uncased", "2018_11_03", "multilingual_L-12_H-768_A-12"),
        ("base_chinese", "2018_11_03", "chinese_L-12_H-768_A-12"),
        *(
            (small, "2020_02_20", small)
            for layers in (2, 4, 6, 8, 10, 12)
            for heads in (2, 4, 8, 12)
            for small in [f"uncased_L-{layers}_H-{64 * heads}_A-{heads}"]
        ),
    )
}
