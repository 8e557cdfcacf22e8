"""Windows on long texts, and their pooled outputs, by NumPy and by a model's own short texts."""

import functools
import itertools

import numpy as np
import pytest

from albert.inference import load_model
from albert.records.sequences import cut_sequence
from albert.tasks.classification.head import make_head
from albert.tasks.glue.windows import pooled, windows_of
from tests.helpers.serving import LABELS


@pytest.mark.parametrize("stride", [1, 3, 50])
def test_windows_have_all_of_the_longer_text_and_half_a_room_of_the_other(stride):
    length, special = 12, (1, 2)
    for a, b in itertools.product((1, 4, 5, 9, 10, 11, 30), (0, 1, 4, 5, 9, 30)):
        ids_a, ids_b = [*range(100, 100 + a)], [*range(200, 200 + b)]
        windows = windows_of(ids_a, ids_b, special, length, stride)
        assert max(len(window.ids) for window in windows) <= length
        room = length - 2 - bool(b)
        if a + b <= room:
            assert windows == [cut_sequence(ids_a, ids_b, special, length)]
            continue
        longer, shorter = (ids_a, ids_b) if a >= b else (ids_b, ids_a)
        parts = [[set(w.ids) & set(ids) for w in windows] for ids in (longer, shorter)]
        assert set.union(*parts[0]) == set(longer)
        assert all(part == set(shorter[: room // 2]) for part in parts[1])
        starts = [min(part) for part in parts[0]]
        assert all(y - x == min(stride, len(parts[0][0])) for x, y in itertools.pairwise(starts))
        assert all((100 in w.ids[: w.first]) == (100 in w.ids) for w in windows)


def outputs(counts, make):
    rng = np.random.default_rng(5)
    return [[make(rng) for _ in range(count)] for count in counts]


def softmax(rng):
    logits = rng.normal(size=3).astype(np.float32)
    shares = np.exp(logits) / np.exp(logits).sum()
    return {"logits": logits, "probabilities": shares, "predictions": np.int32(shares.argmax())}


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_probabilities_of_windows_are_pooled(pooling):
    windows = outputs([1, 3, 2], softmax)
    texts = pooled(windows, pooling)
    assert texts[0] is windows[0][0] and len(texts) == 3
    shares = [np.array([w["probabilities"] for w in one], np.float64) for one in windows]
    for text, part in zip(texts[1:], shares[1:], strict=True):
        expected = part.mean(0) if pooling == "mean" else part.max(0) / part.max(0).sum()
        np.testing.assert_allclose(text["probabilities"], expected, rtol=1e-5)
        assert text["predictions"] == expected.argmax()
        # The loss is that of the pooled probabilities.
        np.testing.assert_allclose(text["logits"], np.log(expected), atol=1e-5)
    _, sets, _ = pooled(windows, pooling, threshold=0.4)
    expected = getattr(shares[1], pooling)(0)
    np.testing.assert_array_equal(sets["predictions"], expected >= 0.4)
    np.testing.assert_allclose(1 / (1 + np.exp(-sets["logits"])), expected, rtol=1e-5)
    numbers = outputs([2], lambda rng: dict.fromkeys(("logits", "predictions"), rng.normal()))
    for number in numbers[0]:
        number |= {"logits": np.float32(number["logits"])}
        number["probabilities"] = np.array([number["logits"]])
    expected = getattr(np, pooling)([number["logits"] for number in numbers[0]])
    (text,) = pooled(numbers, pooling)
    assert text["predictions"] == text["logits"] == text["probabilities"][0] == expected


def test_a_loaded_model_pools_the_windows_of_a_long_text(random_model):
    """By hand: it classifies the text of each window as a text. Random weights say too little."""
    make = functools.partial(random_model, make_head(2, 0.0), task="glue", limits=None)
    own = {"long_texts": "mean", "doc_stride": 10}
    plain, pooling = (load_model(make(labels=LABELS, **flags)) for flags in ({}, own))
    for model in (plain, pooling):
        model._session.outputs = outputs_of_ids
    tokenizer, room = plain.folder.tokenizer, plain.folder.value("max_seq_length") - 2
    letters = [c for c in "nrlscmegbpta" if len(tokenizer.tokenize(c)) == 1] * 12
    text = " ".join(letters)
    assert len(tokenizer.tokenize(text)) == len(letters) > room
    starts = range(0, len(letters) - room + 10, 10)
    windows = plain.classify_all([(" ".join(letters[n : n + room]), "") for n in starts])
    expected = np.mean([[*one.probabilities.values()] for one in windows], axis=0)
    assert abs(expected[0] - plain.classify(text).probabilities[LABELS[0]]) > 0.01
    pauses = []
    for pause in (None, lambda: pauses.append(1)):
        short, long = pooling.classify_all([("n r l", ""), (text, "")], pause)
        np.testing.assert_allclose([*long.probabilities.values()], expected, atol=1e-5)
        assert long.label == LABELS[expected.argmax()]
        assert short == plain.classify("n r l")
    assert len(pauses) == len(starts) + 1


def outputs_of_ids(examples, pause=None):
    """Returns outputs that depend on all ids."""
    outputs = []
    for (sequence,) in examples:
        if pause:
            pause()
        share = 0.5 + np.sin(np.arange(1, len(sequence.ids) + 1) @ sequence.ids) / 2
        logits = np.log([share, 1 - share])
        values = {"probabilities": np.array([share, 1 - share]), "logits": logits}
        outputs.append({**values, "predictions": np.int32(logits.argmax())})
    return outputs
