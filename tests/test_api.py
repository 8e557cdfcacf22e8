"""The public functions: as on the command line, but from Python, in a process that continues."""

import json
import logging
import os
import shutil
import signal
import sys
import threading

import pytest

import albert
from albert import api
from albert.checkpoints.checkpoint_files import list_checkpoints
from albert.core.errors import FlagError, UserError
from albert.core.log import LOG
from tests.helpers.forking import ROOT
from tests.helpers.running import succeed, without_tensorflow
from tests.helpers.squad import squad_command

TINY = {"max_seq_length": 64, "max_query_length": 20, "doc_stride": 16, "train_batch_size": 4}
TINY |= {"from_scratch": True, "verbose": False}


@pytest.fixture(scope="module")
def files(squad_dir):
    names = {"albert_config_file": "albert.json", "spm_model_file": "spm.model"}
    names |= {"train_file": "train-v1.1.json", "predict_file": "dev-v1.1.json"}
    return {name: squad_dir / file for name, file in names.items()}


def test_the_import_is_cheap_and_changes_nothing():
    text = """if True:
        import os, signal, sys
        before = dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout
        import albert
        assert before == (dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout)
        assert not {"tensorflow", "absl", "numpy"} & sys.modules.keys()
        assert {"load", "train", "evaluate"} <= {*dir(albert)}
        from albert import load
        assert "tensorflow" in sys.modules and "TF_CPP_MIN_LOG_LEVEL" not in os.environ
        assert signal.getsignal(signal.SIGINT) is before[1]
    """
    # The programs silence TensorFlow with it.
    env = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    assert without_tensorflow(succeed([sys.executable, "-c", text], cwd=ROOT, env=env)) == ""


def test_training_equals_that_of_the_command(trained, squad_dir, files, tmp_path, capsys):
    """Bit for bit; a second training with other settings is independent."""
    out = tmp_path / "out"
    command = squad_command(squad_dir, out)[2:]
    flags = dict(word.removeprefix("--").split("=", 1) for word in command if "=" in word)
    before = dict(os.environ), LOG.handlers, LOG.level
    result = albert.train("squad", verbose=False, **flags)
    assert before == (dict(os.environ), LOG.handlers, LOG.level)
    assert capsys.readouterr().out == ""
    expected = json.loads((trained / "predictions.json").read_text())
    assert result.predictions == expected and result.output_dir == str(out)
    scores = json.loads((trained / "eval_results.json").read_text())
    assert result.scores.items() <= scores.items() and {"f1", "exact_match"} <= result.scores.keys()
    assert f"f1 {scores['f1']:.4g}" in repr(result) and "<td>f1</td>" in result._repr_html_()
    again = albert.evaluate(result, predict_file=files["predict_file"], verbose=False)
    assert again == result and again.load().answer("Who left?", "Anna left.").answers
    # It starts from the first one's weights, and takes its configuration and tokenizer.
    data = {name: files[name] for name in ("train_file", "predict_file")}
    tiny = {**data, **TINY, "from_scratch": False, "train_steps": 1}
    other = albert.train("squad 2.0", tmp_path / "v2", model=result, **tiny)
    assert other.predictions.keys() == result.predictions.keys() and "f1" in other.scores
    assert list_checkpoints(other.output_dir).keys() == {1}


def test_a_model_and_its_answers_are_shown_in_a_notebook(trained):
    model = albert.load(trained)
    assert albert.UserError is UserError
    assert "ALBERT of 2 layers" in repr(model) and str(trained) in repr(model)
    answered = model.answer("Who left?", "Anna built it. Then <Anna> left.")
    assert answered == model.answer("Who left?", ["Anna built it. Then <Anna> left."])
    shown = answered._repr_html_()
    assert "probability" in shown and "<Anna>" not in shown


@pytest.mark.slow
def test_an_interrupted_training_resumes_bit_for_bit(files, tmp_path):
    """Afterwards, the signal belongs to the notebook again."""
    settings = {**files, **TINY, "predict_file": "", "log_steps": 1}
    settings |= {"train_steps": 6, "save_checkpoints_steps": 6}

    def interrupt(record: logging.LogRecord) -> bool:
        if record.getMessage().startswith("step 3/"):
            signal.raise_signal(signal.SIGINT)
        return True

    before = signal.getsignal(signal.SIGINT)
    LOG.addFilter(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt, match="at step 3 of 6, which is saved"):
            albert.train("squad", tmp_path / "out", **{**settings, "verbose": True})
    finally:
        LOG.removeFilter(interrupt)
    assert signal.getsignal(signal.SIGINT) == before
    assert not list_checkpoints(str(tmp_path / "out"))
    for name in ("out", "whole"):
        albert.train("squad", tmp_path / name, **settings)
    data = "model.ckpt-6.data-00000-of-00001"
    assert (tmp_path / "out" / data).read_bytes() == (tmp_path / "whole" / data).read_bytes()


@pytest.mark.slow
def test_a_pretrained_model_is_found_by_folder_and_name(trained, squad_dir, tmp_path, monkeypatch):
    """As downloads unpack it; the archive is already in the cache."""
    folder = tmp_path / "cache" / "albert_base_v2"
    (folder / "assets").mkdir(parents=True)
    for file in trained.glob("model.ckpt-best.*"):
        shutil.copy(file, folder)
    names = {"albert.json": "albert_config.json", "spm.model": "30k-clean.model"}
    for file, name in {**names, "vocab.txt": "30k-clean.vocab"}.items():
        shutil.copy(squad_dir / file, folder / name)
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "cache"))
    for model in (folder, "albert_base_v2"):
        (embedded,) = albert.load(model).embed("A text.")
        assert embedded.pooled.shape == embedded.layers[-1].shape[1:]
    with pytest.raises(UserError, match="is a pretrained model, which TensorFlow computes in"):
        albert.load(folder, engine="openvino")
    data = {"train_file": squad_dir / "train-v1.1.json", "train_steps": 1}
    tiny = {name: value for name, value in TINY.items() if name != "from_scratch"}
    result = albert.train("squad", tmp_path / "out", model="albert_base_v2", **data, **tiny)
    assert result.scores == {} and list_checkpoints(result.output_dir).keys() == {1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: albert.train("sqaud", "out"), "unknown task 'sqaud'; use one of 'squad'"),
        (lambda: albert.train("squad", "out", trian_file="x"), "did you mean train_file"),
        (lambda: albert.train("squad", "out", train_steps="many"), "train_steps"),
        (
            lambda: albert.train("squad", "out", model="albert_huge"),
            "huge does not exist, and is not",
        ),
        (lambda: albert.load("nowhere"), "nowhere does not exist, and is not"),
        (lambda: albert.evaluate("nowhere"), "nowhere does not exist, and is not"),
    ],
)
def test_mistakes_are_one_line_errors(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert isinstance(caught.value, FlagError) == ("train" in message)
    assert list(tmp_path.iterdir()) == []


def test_runs_in_two_threads_take_turns():
    """They change the output and the environment of the process, and restore them."""
    before, begun = (sys.stdout, dict(os.environ)), [threading.Event(), threading.Event()]

    def work(number: int) -> None:
        with api._running(verbose=False):
            os.environ[f"RUN_{number}"] = "set"
            begun[number].set()
            # The first one lets the second one begin if it can, which then ends later.
            if number:
                first.join()
            begun[1].wait(0.3)

    first, second = (threading.Thread(target=work, args=(number,)) for number in (0, 1))
    first.start()
    begun[0].wait()
    second.start()
    first.join()
    second.join()
    assert (sys.stdout, dict(os.environ)) == before
