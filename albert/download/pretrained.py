"""Downloads a pretrained model and unpacks it to a folder."""

from pathlib import Path

from albert.core.errors import UserError
from albert.core.files import write_json
from albert.download.archive import Parts, install, is_complete
from albert.download.fetch import making
from albert.download.published import MODELS, PublishedFile, join_url

# A file in the unpacked folder that records its source.
_ORIGIN = ".download.json"
_PARTS: Parts = {
    "checkpoint (*.index)": ["**/*.index"],
    "weights (*.data-?????-of-?????)": ["**/*.data-?????-of-?????"],
    "configuration (*config.json)": ["**/*config.json"],
    "vocabulary (*.model or vocab*.txt)": ["**/*.model", "**/vocab*.txt"],
}


def download_model(url: str | None, name: str, output_dir: Path, sha256: str | None = None) -> None:
    """Downloads a model to the folder NAME, unless the folder already has a complete one.

    If an archive with its name is next to it, that archive is unpacked without a download: a .zip
    if the URL names one, otherwise a .tar.gz. For `url` see `archive_address`. `sha256` is the
    expected hash of the archive, in hexadecimal. Raises a `UserError` if the folder is incomplete
    or from another archive, or the archive cannot be used.
    """
    url, target = archive_address(url, name), output_dir / name

    def note_origin(folder: Path, digest: str) -> None:
        write_json(str(folder / _ORIGIN), {"url": url, "sha256": digest})

    with making(target):
        if is_complete(target, _PARTS):
            _check_origin(target, sha256)
        else:
            ending = ".zip" if url.endswith(".zip") else ".tar.gz"
            archive = target.with_name(f"{target.name}{ending}")
            install(PublishedFile(sha256, None, url), archive, target, _PARTS, note_origin)


def archive_address(url: str | None, name: str) -> str:
    """Returns the address of the archive: `url` if it names an archive, otherwise one in `url`.

    Without a URL, it is Google's address for the name; an unknown name raises a `UserError`.
    """
    if url is None:
        if name not in MODELS:
            raise UserError(f"{name} is unknown; pass its URL, or see --help for the known names")
        return MODELS[name]
    return url if url.endswith((".tar.gz", ".tgz", ".zip")) else join_url(url, f"{name}.tar.gz")


def _check_origin(target: Path, sha256: str | None) -> None:
    """Checks that a model is from the archive with a hash, if one is given."""
    origin = target / _ORIGIN
    known = origin.read_text(encoding="utf-8", errors="replace") if origin.is_file() else ""
    if sha256 and sha256 not in known:
        raise UserError(
            f"{target} exists, but is not from the archive with SHA-256 {sha256}, according to its "
            f"{_ORIGIN}; move it away and run again"
        )
