"""What every kind of model does: vectors of texts by `encode`, and arguments."""

import logging
import shutil

import numpy as np
import pytest

import albert
from albert.core.errors import FlagError, UserError
from albert.inference.base import normalized
from albert.inference.embedding import Embedder
from albert.modeling import read_config
from albert.prediction.model import HeadOutput
from benchmarks.parts.models import write_random_weights
from tests.helpers.running import exit_code, fork
from tests.helpers.serving import LABELS, load_once, model_of

# Of different lengths, in no order; the last one has more tokens than the models take.
TEXTS = ["Anna built it.", "", "x", "The bridge was ready.", "one two", "in Ein Text " * 40]


@pytest.fixture(scope="module")
def pretrained(squad_dir, tmp_path_factory):
    """Returns folders of pretrained models with random weights, by family."""

    def pooled_output(encode, features, is_training) -> HeadOutput:
        return HeadOutput(None, {"pooled": encode(features).get_pooled_output()})

    folders = {}
    files = ("albert", "spm.model", "30k-clean.model"), ("bert", "vocab.txt", "vocab.txt")
    for family, file, name in files:
        folder = folders[family] = tmp_path_factory.mktemp(family)
        shutil.copy(squad_dir / f"{family}.json", folder / f"{family}_config.json")
        shutil.copy(squad_dir / file, folder / name)
        config = read_config(str(squad_dir / f"{family}.json"))
        write_random_weights(str(folder), config, pooled_output)
    return folders


_OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("labels", "options", "bert")]


@pytest.fixture(scope="module", params=["squad", "albert", *_OTHERS])
def model(request, trained, pretrained, random_model):
    folders = {"squad": trained, **pretrained}
    return albert.load(folders.get(request.param) or model_of(random_model, request.param))


def test_vectors_are_pooled_states_in_the_order_of_the_texts(model):
    """In batches of any size; the states are those of `embed`, which test_embed.py compares."""
    embedder = Embedder(model.folder, [-1], pooled=False)
    states = [embedded.layers[-1].astype(np.float64) for embedded in embedder.embed(TEXTS)]
    expected = {"mean": [s.mean(axis=0) for s in states], "cls": [s[0] for s in states]}
    for pooling, vectors in expected.items():
        for batch_size in (2, 32):
            encoded = model.encode(TEXTS, pooling, batch_size=batch_size)
            assert encoded.dtype == np.float32
            np.testing.assert_allclose(encoded, vectors, atol=1e-5)
        encoded = model.encode(iter(TEXTS), pooling=pooling, normalize=True)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose(encoded, np.divide(vectors, lengths), atol=1e-5)


def test_no_text_gives_no_vector_long_ones_are_counted_and_zeros_stay_finite(trained, log):
    model = albert.load(trained)
    assert model.encode([]).shape == (0, 32)
    log()
    assert model.encode(TEXTS).shape == (len(TEXTS), 32)
    assert log(logging.WARNING) == ["Truncated 1 of 6 texts to the model's 64 tokens"]
    assert log(logging.WARNING) == []

    np.testing.assert_allclose(normalized(np.float32([[0, 0], [3, 4]])), [[0, 0], [0.6, 0.8]])


# Of each kind of model: the method for many, and what it takes.
MANY = [
    ("labels", "classify_all", [(text, "") for text in TEXTS[3:5]]),
    ("options", "choose_all", [(TEXTS[3], "What is old?", list("abcd"))] * 2),
    ("spans", "find_all", TEXTS[3:5]),
    ("answers", "answer_all", [("What is old?", TEXTS[3:5]), ("What?", TEXTS[3])]),
]


@pytest.fixture
def loaded(request, random_model):
    if request.param == "answers":
        return load_once(str(request.getfixturevalue("trained")))
    return load_once(model_of(random_model, request.param))


@pytest.mark.parametrize(("loaded", "name", "values"), MANY, indirect=["loaded"])
def test_any_iterable_gives_what_a_list_gives(loaded, name, values):
    many = getattr(loaded, name)
    expected = many(values)
    assert len(expected) == 2
    assert many(value for value in values) == many(dict(enumerate(values)).values()) == expected
    assert many([]) == many(iter(())) == []


BAD = [
    ("labels", "classify", ("a", None), "text 1 is None, not a string"),
    ("labels", "classify_all", (["A text."],), "text_b. is needed, but element 0 is 'A"),
    ("labels", "classify_all", ([("a", "b", "c")],), "is needed, but element 0 is .'a', 'b', 'c'"),
    ("labels", "classify_all", (5,), r"a list of \(text_a, text_b\) is needed, not 5"),
    ("options", "choose", ("a", "b", "abcd"), "a list of texts is needed, not 'abcd'"),
    ("options", "choose", ("a", "b", list("abc")), "a list of 4 options is needed, not of 3"),
    ("spans", "find", (5,), "text 0 is 5, not a string"),
    ("spans", "find_all", ("Tamar",), "a list of texts is needed, not 'Tamar'"),
    ("answers", "answer", (None, "text"), "the question is None, not a string"),
    ("answers", "answer", ("What?", ["a", 7]), "text 1 is 7, not a string"),
    ("answers", "encode", ([("a", "b")],), r"text 0 is \('a', 'b'\), not a string"),
    ("answers", "encode", (["a"], "max"), "the pooling 'max' is not one of mean, cls"),
    ("answers", "encode", (["a"], "mean", False, 0), "a batch_size of at least 1 is needed, not 0"),
    ("answers", "encode", (["a"], "mean", False, 1.5), "a batch_size of at least 1 is needed, "),
]


@pytest.mark.parametrize(("loaded", "name", "arguments", "message"), BAD, indirect=["loaded"])
def test_a_wrong_argument_is_one_line(loaded, name, arguments, message):
    with pytest.raises(UserError, match=rf"^.*{message}.*\Z"):
        getattr(loaded, name)(*arguments)


@pytest.mark.parametrize("loaded", ["labels"], indirect=True)
def test_after_a_fork_all_that_would_hang_is_refused(loaded, tmp_path):
    loaded.classify(TEXTS[3])
    rows = [(text, label) for text in TEXTS[3:5] for label in LABELS]
    calls = [
        lambda: loaded.classify(TEXTS[3]),
        lambda: loaded.encode(TEXTS),
        lambda: albert.load(loaded.folder.path),
        lambda: albert.load(loaded.folder.path, "openvino"),
        lambda: albert.train("classify", tmp_path, data=rows, model=loaded.folder.path),
    ]
    for call in calls:

        def work() -> None:
            with pytest.raises(UserError, match="forked .*: start processes with .*'spawn'"):
                call()  # noqa: B023

        assert exit_code(fork(work)) == 0


def test_an_embedder_needs_texts(pretrained):
    model = albert.load(pretrained["albert"])
    for call in (model.embed, lambda values: next(model.stream(values))):
        with pytest.raises(UserError, match="texts or of pairs of texts is needed, not None"):
            call(None)
    assert [len(model.embed(one)) for one in ("abc", ["abc", "d"])] == [1, 2]


@pytest.mark.parametrize("path", [None, 7, ["folder"], "", "a\0b"])
def test_a_path_is_a_string_or_a_path_and_none_is_no_value(path, tmp_path):
    for function in (albert.load, albert.evaluate, lambda path: albert.train("squad", path)):
        with pytest.raises(UserError, match="a path, a name or a result of train is needed, not "):
            function(path)
    with pytest.raises(UserError, match="unknown task .'squad'.; use one of"):
        albert.train(["squad"], tmp_path)
    with pytest.raises(FlagError, match="learning_rate needs a value, not None; omit it"):
        albert.train("squad", tmp_path, learning_rate=None)
