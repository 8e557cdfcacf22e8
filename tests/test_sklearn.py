"""The classifier for scikit-learn, with the real package.

Of scikit-learn's checks of estimators, those of parameters apply to it, except
check_no_attributes_set_in_init: the settings are one attribute. All other checks fit it on arrays
of numbers, which are no texts; the tests of a fitted classifier here check the same on texts.
"""

import pickle
import random
import sys

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

import albert
from albert.core.errors import FlagError, UserError

WORDS = "lscmegbpta"


@pytest.fixture(scope="module")
def settings(squad_dir):
    files = {"albert_config_file": "albert.json", "spm_model_file": "spm.model"}
    steps = {"train_steps": 2, "save_checkpoints_steps": 2, "train_batch_size": 8}
    steps |= {"max_seq_length": 16, "from_scratch": True}
    return {**{n: squad_dir / file for n, file in files.items()}, **steps}


@pytest.fixture(scope="module")
def texts():
    """Returns texts, every other one with the word n."""
    rng = random.Random(1)
    return [" ".join([*rng.choices(WORDS, k=4), "nr"[n % 2]]) for n in range(40)]


@pytest.fixture(scope="module")
def fitted(settings, texts):
    labels = np.array([True, False] * 20)
    return albert.TextClassifier(**settings).fit(texts, labels), labels


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_mixin_order,
        estimator_checks.check_valid_tag_types,
    ],
)
def test_parameters_pass_the_checks_of_scikit_learn(check):
    check("TextClassifier", albert.TextClassifier(learning_rate=1e-3, train_steps=2))


def test_settings_are_parameters():
    made = albert.TextClassifier("folder", learning_rate=1e-3)
    assert made.set_params(train_steps=2, model="other") is made and is_classifier(made)
    expected = {"model": "other", "output_dir": None, "learning_rate": 1e-3, "train_steps": 2}
    for one in (made, clone(made), pickle.loads(pickle.dumps(made))):
        assert one.get_params() == expected
    made.set_params(train_steps=3)
    with pytest.raises(NotFittedError):
        pickle.loads(pickle.dumps(made)).predict(["a"])


def test_labels_keep_their_type_and_probabilities_their_order(fitted, texts):
    classifier, labels = fitted
    assert classifier.classes_.tolist() == [False, True] and classifier.classes_.dtype == bool
    predicted, shares = classifier.predict(texts), classifier.predict_proba(texts)
    assert predicted.dtype == bool and (predicted == classifier.classes_[shares.argmax(1)]).all()
    assert shares.shape == (40, 2) and shares.sum(axis=1) == pytest.approx(np.ones(40), abs=1e-12)
    one = classifier._model.classify(texts[0])
    assert shares[0, 1] == pytest.approx(one.probabilities["True"], abs=1e-6)
    assert classifier.score(texts, labels) == np.mean(predicted == labels)
    assert classifier.scores_.keys() == {"eval_accuracy", "eval_loss"}
    assert (classifier.predict(np.array(texts)) == predicted).all()
    assert (classifier.predict([{"any": text} for text in texts]) == predicted).all()
    assert classifier.predict_proba([]).shape == (0, 2)
    assert (pickle.loads(pickle.dumps(classifier)).predict_proba(texts) == shares).all()
    with pytest.raises(NotFittedError):
        clone(classifier).predict(texts)


@pytest.mark.slow
def test_few_pairs_are_trained_on_without_scores(settings, tmp_path):
    """Each fit replaces the run in its folder."""
    pairs, names = [("n l", "s"), ("r", "c m"), ("n", "e")], ["one", "two ", "one"]
    classifier = albert.TextClassifier(output_dir=tmp_path, **settings).set_params(train_steps=1)
    for data, labels in ((pairs, names), (pairs[:2], [0.0, 1.0])):
        assert classifier.fit(data, labels).scores_ == {} and (tmp_path / "run.json").exists()
        assert set(classifier.predict(data)) <= {*labels}


@pytest.mark.parametrize(
    ("arguments", "X", "y", "message"),
    [
        ({"multi_label": True}, ["a", "b"], [0, 1], "multi_label is not a setting of Text"),
        ({"lerning_rate": 1.0}, ["a", "b"], [0, 1], "did you mean learning_rate"),
        ({}, ["a", "b"], ["x", "x "], "y has labels that differ only in white space or are one"),
        ({}, ["a", "b"], ["0", "0.0"], "y has labels that differ only in white space or are one"),
        ({}, ["a", "b"], ["x"], "inconsistent numbers of samples"),
        ({}, ["a", "b"], [0.3, 0.7], "Unknown label type"),
        ({}, ["a", None], [0, 1], "X, row 2: text is None, not a text"),
        ({}, [("a", "b", "c")], [0], "X, row 1: .* is needed, not"),
        ({}, [{"a": 1, "b": 2, "c": 3}], [0], "X, row 1: "),
        ({}, "a text", [0], "X must be a list, a DataFrame or a table, not a str"),
    ],
)
def test_mistakes_are_one_line_errors(arguments, X, y, message):
    with pytest.raises(ValueError, match=message) as caught:
        albert.TextClassifier(**arguments).fit(X, y)
    assert isinstance(caught.value, UserError) or "X" not in message
    assert isinstance(caught.value, FlagError) == ("did you" in message)


def test_without_scikit_learn_a_line_names_the_package(monkeypatch):
    monkeypatch.delitem(sys.modules, "albert.sklearn", raising=False)
    for name in ("sklearn", "sklearn.base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match="TextClassifier: .* is missing: run `pip install scikit-l"):
        albert.TextClassifier()
