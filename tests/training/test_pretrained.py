"""--download: the model of --init_checkpoint is there before the job begins."""

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
    """What would be fetched lies there already."""
    with tarfile.open(tmp_path / "albert_base_v2.tar.gz", "w:gz") as tar:
        for name in (*FILES, "30k-clean.model"):
            member = tarfile.TarInfo(f"albert_base/{name}")
            member.size = 2
            tar.addfile(member, io.BytesIO(b"{}"))
    return tmp_path / "albert_base_v2"


@pytest.mark.parametrize("checkpoint", ["", "model.ckpt-best"])
def test_a_model_that_is_missing(archive, checkpoint):
    """It is fetched only where that is asked for, and stays as it is then."""
    fetch_missing(settings(archive / checkpoint, download=False))
    fetch_missing(settings(None))
    assert not archive.exists()
    fetch_missing(settings(archive / checkpoint))
    assert {path.name for path in archive.iterdir()} >= set(FILES)
    (archive / FILES[0]).unlink()
    fetch_missing(settings(archive / checkpoint))
    assert not (archive / FILES[0]).exists()


def test_a_name_that_is_not_known(tmp_path, capfd):
    with pytest.raises(UserError, match="--download: mine of --init_checkpoint .* as said above"):
        fetch_missing(settings(tmp_path / "mine" / "model.ckpt-7"))
    assert "mine is not known without a URL" in capfd.readouterr().err
