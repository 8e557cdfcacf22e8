"""The tokenizer and the model card of a converted model, and the effect of a full disk."""

import json
import resource
import shutil

import pytest

from albert.convert.convert import ConversionOptions, from_transformers, to_transformers
from albert.core.errors import FlagError, UserError
from albert.core.files import content_of
from tests.helpers.files import limited
from tests.helpers.models import make_checkpoint


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    make_checkpoint(folder, "albert", "")
    (folder / "assets.extra/spm.model").write_bytes(b"pieces")
    (folder / "assets.extra/model.json").write_text('{"task": "race", "do_lower_case": false}')
    content = content_of(str(folder / "assets.extra/spm.model"))
    (folder / "run.json").write_text(json.dumps({"settings": {"spm_model_file": content}}))
    return folder


def convert(run, **options) -> tuple[dict, dict]:
    there = run.parent / "there"
    to_transformers(str(run), str(there), ConversionOptions(**options))
    config = json.loads((there / "tokenizer_config.json").read_text())
    files = {name: there / name for name in ("spiece.model", "vocab.txt")}
    return {name: path.read_bytes() for name, path in files.items() if path.exists()}, config


def test_the_runs_vocabulary_becomes_the_tokenizer(run):
    for path in ("run.json", "assets.extra/spm.model"):
        (run / path).unlink()
    files, config = convert(
        run,
        normalization={"do_lower_case": True},
        albert_config_file=str(run / "albert_config.json"),
    )
    assert files == {"vocab.txt": b"[UNK]\n"}
    assert (config["tokenizer_class"], config["do_lower_case"]) == ("BertTokenizer", True)


def test_only_the_runs_tokenizer_is_accepted(run, tmp_path):
    files, config = convert(run)
    assert files == {"spiece.model": b"pieces"}
    assert (config["tokenizer_class"], config["do_lower_case"]) == ("AlbertTokenizer", False)
    shutil.rmtree(run.parent / "there")
    other = tmp_path / "other.model"
    other.write_bytes(b"others")
    with pytest.raises(UserError, match="was trained with another --spm_model_file"):
        convert(run, spm_model_file=str(other))
    other.write_bytes(b"pieces")
    assert convert(run, spm_model_file=str(other))[0] == {"spiece.model": b"pieces"}


def test_without_a_tokenizer_nothing_is_written(run):
    for path in (run / "assets.extra").iterdir():
        path.unlink()
    message = "--spm_model_file or --vocab_file is required: .*run/model"
    with pytest.raises(FlagError, match=message):
        convert(run)
    assert list(run.parent.iterdir()) == [run]
    # Faults of the target are reported first.
    (run.parent / "there").write_text("mine")
    with pytest.raises(UserError, match="there already exists"):
        convert(run)


@pytest.mark.parametrize(("name", "is_shown"), [("", True), ("/model.ckpt-5", False)])
def test_the_card_shows_only_its_checkpoints_scores(run, tmp_path, name, is_shown):
    """For a folder, that is the best checkpoint."""
    files = list(run.glob("model.ckpt.*"))
    for checkpoint in ("model.ckpt-5", "model.ckpt-10", "model.ckpt-best"):
        for file in files:
            shutil.copy(file, run / file.name.replace("model.ckpt", checkpoint))
    best = {"checkpoint": "model.ckpt-10", "global_step": 10, "f1": 81.25}
    scores = {**best, "history": [{**best, "checkpoint": "model.ckpt-5", "f1": 12.5}, best]}
    (run / "eval_results.json").write_text(json.dumps(scores))
    to_transformers(f"{run}{name}", str(tmp_path / "there"), ConversionOptions())
    card = (tmp_path / "there/README.md").read_text()
    assert ("| f1 | 81.25 |" in card) == ("## Scores" in card) == is_shown


@pytest.mark.parametrize("back", [False, True])
def test_a_full_disk_leaves_nothing(run, back):
    there, target = run.parent / "there", run.parent / "target"
    if back:
        convert(run)
    before = set(run.parent.iterdir())
    message = "^[^\n]*target cannot be written: [^\n]*File too large"
    with pytest.raises(UserError, match=message), limited(resource.RLIMIT_FSIZE, 1000):
        if back:
            from_transformers(str(there), str(target))
        else:
            to_transformers(str(run), str(target), ConversionOptions())
    assert set(run.parent.iterdir()) == before
