"""The public functions: as on the command line, but from Python, in a process that continues."""

import os
import random
import shutil
import sys
import threading
import unittest.mock

import numpy as np
import pytest

import albert
from albert import api
from albert.checkpoints.checkpoint_files import list_checkpoints
from albert.checkpoints.model_folder import recorded_scores
from albert.core.errors import FlagError, UserError
from albert.core.log import LOG
from tests.helpers import running
from tests.helpers.forking import ROOT
from tests.helpers.running import succeed, without_tensorflow
from tests.readme.pages import blocks_of

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


WORDS = "nrlscmegbpta"


@pytest.mark.slow
class TestRows:
    """Training and predicting without files."""

    @pytest.fixture(scope="class")
    def model(self, squad_dir):
        files = {"albert_config_file": "albert.json", "spm_model_file": "spm.model"}
        steps = {"train_steps": 4, "train_batch_size": 4, "max_seq_length": 16}
        return {**{n: squad_dir / file for n, file in files.items()}, **steps, "from_scratch": True}

    @pytest.fixture(scope="class")
    def rows(self):
        rng = random.Random(1)
        return [(" ".join(rng.choices(WORDS, k=6)), number % 2) for number in range(24)]

    def test_rows_are_trained_on_like_a_table(self, model, rows, tmp_path):
        """Bit for bit; a repeated call trains nothing, and other rows are another run."""
        table = tmp_path / "texts.csv"
        table.write_text("".join(f"{text},{label}\n" for text, label in [("text", "label"), *rows]))
        flags = [f"--{name}={value}" for name, value in model.items()]
        succeed(running.albert("classify", table, *flags, "--output_dir=there"), cwd=tmp_path)
        settings, out = {**model, "verbose": False}, tmp_path / "out"
        result = albert.train("classify", out, data=rows, **settings)
        for name in ("tsv_train.tf_record", "tsv_eval.tf_record", "predictions.jsonl"):
            assert (out / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name
        last = "model.ckpt-4.data-00000-of-00001"
        assert (out / last).read_bytes() == (tmp_path / "there" / last).read_bytes()
        assert result.scores["eval_accuracy"] == recorded_scores(out)["eval_accuracy"]
        before = os.stat(out / last)
        frame = [{"text": text, "label": np.int64(label)} for text, label in rows]
        assert albert.train("classify", out, data=frame, **settings) == result
        assert os.stat(out / last) == before
        others = [*rows[:-1], ("n n", 1)]
        with pytest.raises(UserError, match="holds a run with other flags: --train_file"):
            albert.train("classify", out, data=others, **settings)
        settings |= {"overwrite_output_dir": True, "train_steps": 1}
        other = albert.train("classify", out, data=others, dev_data=rows[:4], **settings)
        assert list_checkpoints(str(out)).keys() == {1} and len(other.predictions) == 4
        assert sorted(os.listdir(out / "data")) == ["README.txt", "dev.jsonl", "train.jsonl"]
        loaded, texts = other.load(), [text for text, _ in rows[:3]]
        expected = [one.label for one in loaded.classify_all((text, "") for text in texts)]
        pairs, columns = [(t, "") for t in texts], [{"text": t} for t in texts]
        for data in (texts, np.array(texts), pairs, columns):
            assert loaded.predict(data) == expected
        with pytest.raises(UserError, match="data, row 1: text is None, not a text; it has text_a"):
            loaded.predict([{"text_a": "n"}])
        scored = albert.evaluate(other, data=rows[:4], verbose=False)
        assert scored.scores["eval_accuracy"] == other.scores["eval_accuracy"]

    def test_pairs_numbers_and_several_labels(self, model, rows, tmp_path):
        settings = {**model, "verbose": False, "train_steps": 1, "do_eval": False}
        pairs = [(text, text[::-1], label / 3) for text, label in rows]
        made = albert.train("classify", tmp_path / "1", data=pairs, tsv_regression=True, **settings)
        (number,) = made.load().predict([{"text_a": "n r", "text_b": None}])
        assert isinstance(number, float) and made.scores == {}
        several = [{"review": text, "b": 1, "a": label > 0} for text, label in rows]
        columns = {"label_columns": ["b", "a"], "label_threshold": 0.0}
        made = albert.train("classify", tmp_path / "2", data=several, **columns, **settings)
        assert made.load().predict([{"review": "n r"}]) == [["a", "b"]]
        # The model knows the columns.
        scored = albert.evaluate(made, data=several, label_threshold=0.0, verbose=False)
        truth = sum(row["b"] + row["a"] for row in several)
        precision = truth / (2 * len(rows))
        assert scored.scores["micro_f1"] == pytest.approx(2 * precision / (1 + precision))
        one = {"data": [{"review": "n", "x": "a"}], "label_column": "x", "label_columns": ()}
        scored = albert.evaluate(made, label_threshold=0.0, verbose=False, **one)
        assert scored.scores["micro_f1"] == pytest.approx(2 / 3)

    def test_questions_and_entities(self, model, rows, tmp_path):
        settings = {**model, "verbose": False, "train_steps": 1}
        asked = [{"context": t, "question": "n?", "answer": t, "note": 1} for t, _ in rows]
        size = {"max_seq_length": 32, "max_query_length": 8, "doc_stride": 8}
        options = {**settings, **size, "answers": "first"}
        out = tmp_path / "squad"
        made = albert.train("squad 2.0", out, data=asked, dev_data=asked[:2], **options)
        loaded, (first, second) = made.load(), made.predictions.values()
        assert loaded.predict(asked[:2]) == [first, second]
        assert loaded.predict([("n?", rows[0][0])]) == [first]
        spans = [
            {"text": t, "spans": [(0, 1, "X"), {"start": 2, "end": 3, "label": "Y"}]}
            for t, _ in rows
        ]
        made = albert.train("entities", tmp_path / "entities", data=spans, **settings)
        loaded, texts = made.load(), [text for text, _ in rows[:2]]
        assert loaded.predict(texts) == loaded.predict(spans[:2]) == loaded.find_all(texts)


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
    both = [albert.load(folder, engine=name) for name in ("tensorflow", "openvino")]
    expected, actual = (model.embed("A text.")[0] for model in both)
    np.testing.assert_allclose(actual.pooled, expected.pooled, rtol=0, atol=1e-5)
    np.testing.assert_allclose(actual.layers[-1], expected.layers[-1], rtol=0, atol=1e-5)
    with pytest.raises(UserError, match="is a pretrained model, which computes in float32"):
        albert.load(folder, precision="bfloat16")
    data = {"train_file": squad_dir / "train-v1.1.json", "train_steps": 1}
    tiny = {name: value for name, value in TINY.items() if name != "from_scratch"}
    result = albert.train("squad", tmp_path / "out", model="albert_base_v2", **data, **tiny)
    assert result.scores == {} and list_checkpoints(result.output_dir).keys() == {1}


TABLE = [("a", 1)]


@pytest.mark.parametrize(
    ("task", "given", "error", "message"),
    [
        ("sqaud", {}, UserError, "unknown task 'sqaud'; use one of 'squad'"),
        ("squad", {"trian_file": "x"}, FlagError, "did you mean train_file"),
        ("squad", {"train_steps": "many"}, FlagError, "train_steps"),
        ("squad", {"model": "albert_huge"}, UserError, "albert_huge does not exist, and is not"),
        ("race", {"data": "train.csv"}, UserError, "data is not for 'race'; pass the"),
        ("squad", {"dev_data": [{}]}, UserError, "dev_data needs rows as data"),
        ("classify", {"data": TABLE, "data_dir": "x"}, UserError, "data and data_dir contradict"),
        ("squad", {"data": "x", "train_file": "y"}, UserError, "data and train_file contradict"),
        (
            *("squad", {"data": [{}], "dev_data": [{}], "predict_file": "x"}),
            *(UserError, "data and predict_file contradict"),
        ),
        ("entities", {"data": [{"text": "a"}, "b"]}, UserError, "row 2: a dict is needed, not 'b'"),
        ("classify", {"data": TABLE, "dev_data": [*TABLE, "b"]}, UserError, "dev_data, row 2: a d"),
    ],
)
def test_mistakes_are_one_line_errors(task, given, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"^.*{message}.*\Z") as caught:
        albert.train(task, "out", **given)
    assert type(caught.value) is error and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", [albert.load, albert.evaluate])
def test_a_missing_model_is_an_error(call):
    with pytest.raises(UserError, match="nowhere does not exist, and is not"):
        call("nowhere")


def test_runs_in_two_threads_take_turns():
    """They change the output, the log and the environment of the process, and restore them."""

    def state() -> tuple:
        return sys.stdout, dict(os.environ), [*LOG.handlers], LOG.level

    before, begun = state(), [threading.Event(), threading.Event()]

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
    assert state() == before


@pytest.mark.slow
def test_the_search_of_the_page_resumes_a_training(trained, tmp_path, monkeypatch):
    optuna = pytest.importorskip("optuna", reason="need Optuna: make install-dev")
    blocks = blocks_of(ROOT / "docs/python.md")
    (script,) = (block.text for block in blocks if "import optuna" in block.text)
    smaller = {
        '"sentence-transformers/all-MiniLM-L6-v2"': repr(str(trained)),
        **{"[16, 32]": "[2, 3]", '"num_train_epochs", 2, 5': '"num_train_epochs", 1, 2'},
    }
    for old, new in smaller.items():
        assert script.count(old) == 1
        script = script.replace(old, new)

    def search(trials: int) -> list:
        exec(script.replace("TRIALS, STATES = 20", f"TRIALS, STATES = {trials}"), names := {})
        return names["study"].trials

    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (first,) = search(1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(albert, "train", unittest.mock.Mock(side_effect=KeyboardInterrupt))
        search(2)
    again, interrupted, resumed = search(2)
    states = optuna.trial.TrialState
    assert again == first and interrupted.state != states.COMPLETE == resumed.state
    assert interrupted.params == resumed.params != first.params
    folders = {trial.user_attrs["folder"] for trial in (first, interrupted, resumed)}
    assert len(folders) == 2 and all((tmp_path / f / "run.json").is_file() for f in folders)
    assert list((tmp_path / "out/search").glob("*.tf_record"))
    assert not list((tmp_path / "out/search").glob("*/*.tf_record")), "features are shared"
