"""Arguments of loaded models: any iterable once, and one line for everything else."""

import logging

import pytest

import albert
from albert.core.errors import FlagError, UserError
from tests.helpers.running import exit_code_of_child
from tests.helpers.serving import load_once, model_of

TEXTS = ["The mill is old.", "A bridge crosses the river."]
# Of each kind of model: the method for many, and what it takes.
MANY = {
    "labels": ("classify_all", [(text, "") for text in TEXTS]),
    "options": ("choose_all", [(TEXTS[0], "What is old?", list("abcd"))] * 2),
    "spans": ("find_all", TEXTS),
    "answers": ("answer_all", [("What is old?", TEXTS), ("What?", TEXTS[0])]),
}


@pytest.fixture
def model(request, random_model):
    if request.param == "answers":
        return load_once(str(request.getfixturevalue("trained")))
    return load_once(model_of(random_model, request.param))


@pytest.mark.parametrize(
    ("model", "name", "values"), [(kind, *call) for kind, call in MANY.items()], indirect=["model"]
)
def test_any_iterable_gives_what_a_list_gives(model, name, values):
    many = getattr(model, name)
    expected = many(values)
    assert len(expected) == 2
    assert many(value for value in values) == many(dict(enumerate(values)).values()) == expected
    assert many([]) == many(iter(())) == []


BAD = [
    ("labels", "classify", (None,), "text 0 is None, not a string"),
    ("labels", "classify", ("a", None), "text 1 is None, not a string"),
    ("labels", "classify_all", (["A text."],), "text_b. is needed, but element 0 is 'A"),
    ("labels", "classify_all", ([("a", "b", "c")],), "is needed, but element 0 is .'a', 'b', 'c'"),
    ("labels", "classify_all", (5,), r"a list of \(text_a, text_b\) is needed, not 5"),
    ("options", "choose", ("a", "b", "abcd"), "a list of texts is needed, not 'abcd'"),
    ("options", "choose", ("a", None, list("abcd")), "text 1 is None, not a string"),
    ("options", "choose", ("a", "b", list("abc")), "a list of 4 options is needed, not of 3"),
    ("spans", "find", (5,), "text 0 is 5, not a string"),
    ("spans", "find_all", ("Tamar",), "a list of texts is needed, not 'Tamar'"),
    ("answers", "answer", (None, "text"), "the question is None, not a string"),
    ("answers", "answer", ("What?", None), "a list of texts is needed, not None"),
    ("answers", "answer", ("What?", ["a", 7]), "text 1 is 7, not a string"),
    ("answers", "encode", ([("a", "b")],), r"text 0 is \('a', 'b'\), not a string"),
    ("answers", "encode", (["a"], "max"), "the pooling 'max' is not one of mean, cls"),
    ("answers", "encode", (["a"], "mean", False, 0), "a batch_size of at least 1 is needed, not 0"),
    ("answers", "encode", (["a"], "mean", False, 1.5), "a batch_size of at least 1 is needed, "),
]


@pytest.mark.parametrize(("model", "name", "arguments", "message"), BAD, indirect=["model"])
def test_a_wrong_argument_is_one_line(model, name, arguments, message):
    with pytest.raises(UserError, match=message) as caught:
        getattr(model, name)(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["labels"], indirect=True)
def test_truncated_texts_are_counted_and_a_forked_process_loads_its_model(model, log):
    """A session of TensorFlow would hang there."""
    log()
    model.classify_all([("word " * 100, ""), ("word " * 40, "word " * 40), *MANY["labels"][1]])
    assert log(logging.WARNING) == ["Truncated 2 of 4 texts to the model's 64 tokens"]

    def work() -> None:
        with pytest.raises(UserError, match="was loaded before this process was forked; load it"):
            model.classify(TEXTS[0])

    assert exit_code_of_child(work) == 0


@pytest.mark.parametrize("path", [None, 7, ["folder"]])
def test_a_path_is_a_string_or_a_path_and_none_is_no_value(path, tmp_path):
    for function in (albert.load, albert.evaluate, lambda path: albert.train("squad", path)):
        with pytest.raises(UserError, match="a path, a name or a result of train is needed, not "):
            function(path)
    with pytest.raises(FlagError, match="learning_rate needs a value, not None; omit it"):
        albert.train("squad", tmp_path, learning_rate=None)
