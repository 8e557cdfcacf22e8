"""--download and --download_only: the model and the data exist before the job begins."""

import io
import shutil
import tarfile
import types

import pytest

from albert.core.errors import UserError
from albert.training.job import fetch_missing
from tests.helpers.files import settings_class, settings_of
from tests.helpers.running import assert_fails, command_of, run, succeed, task_of

FILES = ("model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001", "albert_config.json")


def settings(path, download=True):
    return types.SimpleNamespace(
        init_checkpoint=path and str(path), download=download, download_only=False
    )


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
    fetch_missing(settings(archive / checkpoint, download=False), {})
    fetch_missing(settings(None), {})
    assert not archive.exists()
    fetch_missing(settings(archive / checkpoint), {})
    assert {path.name for path in archive.iterdir()} >= set(FILES)
    (archive / FILES[0]).unlink()
    fetch_missing(settings(archive / checkpoint), {})
    assert not (archive / FILES[0]).exists()


def test_an_unknown_name_is_an_error(tmp_path, capfd):
    with pytest.raises(UserError, match="--download: could not download mine of --init_checkpoint"):
        fetch_missing(settings(tmp_path / "mine" / "model.ckpt-7"), {})
    assert "mine is unknown; pass its URL" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("program", "flags", "words"),
    [
        (
            "run_squad_v1",
            ["--train_file={}/train-v1.1.json", "--predict_file={}/dev-v1.1.json"],
            {"squad --version=1.1"},
        ),
        # What the job does not read, and names that are not published.
        (
            "run_squad_v2",
            ["--do_train=false", "--train_file={}/train-v2.0.json", "--predict_file={}/own.json"],
            set(),
        ),
        (
            "run_squad_v2",
            ["--predict_file={}/dev-v2.0.json"],
            {"squad --version=2.0"},
        ),
        (
            "run_classifier",
            ["--task_name=MRPC", "--data_dir={}"],
            {"glue --tasks=MRPC"},
        ),
        (
            "run_classifier",
            ["--task_name=rte,mnli", "--seeds=1,2", "--do_predict", "--data_dir={}"],
            {"glue --tasks=RTE", "glue --tasks=MNLI", "glue --tasks=diagnostic"},
        ),
        ("run_classifier", ["--task_name=tsv", "--data_dir={}"], set()),
        ("run_race", ["--data_dir={}"], {"race"}),
    ],
)
def test_missing_data_with_a_known_name_are_downloaded(tmp_path, program, flags, words):
    given = settings_of(settings_class(program), *(flag.format(tmp_path) for flag in flags))
    expected = {f"{of} --data_dir={tmp_path}" for of in words}
    assert {" ".join(of) for of in task_of(program).downloads(given).values()} == expected


def test_a_login_node_downloads_everything_and_ends(tmp_path, archive, caplog):
    """The archive of RACE exists, so nothing is downloaded; the machine has no GPU."""
    folder = tmp_path / "RACE"
    for name in (f"{p}/{level}" for p in ("train", "dev", "test") for level in ("middle", "high")):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.txt").write_text("{}")
    with tarfile.open(tmp_path / "RACE.tar.gz", "w:gz") as tar:
        tar.add(folder, "RACE")
    shutil.rmtree(folder)
    model = [f"--init_checkpoint={archive}", f"--albert_config_file={archive}/albert_config.json"]
    flags = [*model, f"--spm_model_file={archive}/30k-clean.model", f"--data_dir={tmp_path}"]
    flags += ["--download_only", "--device=gpu", f"--output_dir={tmp_path}/out"]
    succeed([*command_of("run_race"), *flags])
    assert (folder / "dev/high/1.txt").exists() and (archive / "30k-clean.model").exists()
    assert not (tmp_path / "out").exists()
    missing = run([*command_of("run_race"), *flags, f"--spm_model_file={tmp_path}/none.model"])
    assert_fails(missing, 1, "--download_only: --spm_model_file", "has no known name")
