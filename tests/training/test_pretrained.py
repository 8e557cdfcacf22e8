"""--download: the model of --init_checkpoint exists before the job begins."""

import io
import tarfile
import types

import pytest

from albert.core.errors import UserError
from albert.training.job import fetch_missing

FILES = ("model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001", "albert_config.json")


def settings(path, download=True):
    return types.SimpleNamespace(init_checkpoint=path and str(path), download=download)


@pytest.fixture
def archive(tmp_path):
    """Places the archive where it would be downloaded."""
    with tarfile.open(tmp_path / "albert_base_v2.tar.gz", "w:gz") as tar:
        for name in (*FILES, "30k-clean.model"):
            member = tarfile.TarInfo(f"albert_base/{name}")
            member.size = 2
            tar.addfile(member, io.BytesIO(b"{}"))
    return tmp_path / "albert_base_v2"


@pytest.mark.parametrize("checkpoint", ["", "model.ckpt-best"])
def test_a_missing_model_is_only_fetched_on_request(archive, checkpoint):
    """A fetched model is not fetched again."""
    fetch_missing(settings(archive / checkpoint, download=False))
    fetch_missing(settings(None))
    assert not archive.exists()
    fetch_missing(settings(archive / checkpoint))
    assert {path.name for path in archive.iterdir()} >= set(FILES)
    (archive / FILES[0]).unlink()
    fetch_missing(settings(archive / checkpoint))
    assert not (archive / FILES[0]).exists()


def test_an_unknown_name_is_an_error(tmp_path, capfd):
    with pytest.raises(UserError, match="--download: could not download mine of --init_checkpoint"):
        fetch_missing(settings(tmp_path / "mine" / "model.ckpt-7"))
    assert "mine is unknown; pass its URL" in capfd.readouterr().err
