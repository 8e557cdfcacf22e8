"""Answers of SQuAD 1.1: several texts, long texts, and an answer's position in its text."""

import json
from unittest import mock

import pytest

from albert.inference import base, load_model
from albert.inference.answers import location_of
from albert.tasks.squad.head import make_v1_head
from tests.helpers.serving import load_once


@pytest.fixture(scope="module")
def model(exported):
    return load_once(str(exported))


@pytest.fixture(scope="module")
def paragraphs(squad_dir) -> list[dict]:
    content = json.loads((squad_dir / "dev-v1.1.json").read_text())
    return [p for article in content["data"] for p in article["paragraphs"]]


def test_several_texts_are_compared_by_their_scores_and_blanks_have_no_answer(model, paragraphs):
    question = paragraphs[0]["qas"][0]["question"]
    texts = [p["context"] for p in paragraphs]
    together = model.answer(question, texts).answers
    alone = [model.answer(question, [text]).answers for text in texts]
    assert sum(a.probability for a in together) == pytest.approx(1)
    for number, answers in enumerate(alone):
        own = [a for a in together if a.context == number]
        # The relative probabilities within one text do not depend on the others.
        for one, expected in zip(own, answers, strict=False):
            ratio = own[0].probability / answers[0].probability
            assert one.text == expected.text
            assert one.probability == pytest.approx(expected.probability * ratio)
    assert {a.context for a in together} > {0}
    expected = model.answer(question, [texts[0]])
    assert model.answer(question, texts[0]) == expected
    assert model.answer_all([(question, texts[0])]) == [expected]
    assert model.answer("What?", [" \n"]).answers == []
    answers = model.answer("What?", [" \n", texts[0]]).answers
    assert answers and {a.context for a in answers} == {1}


def test_a_very_long_text_is_answered_in_parts(model, paragraphs, monkeypatch):
    """A text split between two paragraphs has the paragraphs' answers."""
    monkeypatch.setattr("albert.inference.squad._MOST_CHARACTERS", 1 << 12)
    # Positions count from the beginning of the text, even in parts without a space.
    for text in (" ".join(p["context"] for p in paragraphs), "a" * 9000):
        for answer in model.answer("What?", [text]).answers:
            assert text[answer.start : answer.end] == answer.text
    question = paragraphs[0]["qas"][0]["question"]
    first, second = ((f"{p['context']} " * 100)[:3750] + "\n\n" for p in paragraphs[:2])
    (together,) = model.answer_all([(question, [first + second])])
    (apart,) = model.answer_all([(question, [first, second])])
    starts = {}
    for answer in apart.answers:
        starts.setdefault(answer.text, answer.start + len(first) * answer.context)
    kept = {a.text: a.start for a in together.answers}
    assert len(kept) == len(together.answers) and starts.items() <= kept.items()


def test_answering_can_be_interrupted_between_batches(model, paragraphs):
    text = " ".join(p["context"] for p in paragraphs) * 20
    with pytest.raises(KeyError):
        model.answer_all([("What?", [text])], mock.Mock(side_effect=[None, KeyError]))


@pytest.mark.parametrize("masks", [True, False])
def test_texts_are_padded_to_multiples_of_16(random_model, monkeypatch, masks):
    """In TensorFlow. The longest is the model's length, the only one where padding counts."""
    lengths = {"doc_stride": 16, "max_query_length": 20, "n_best_size": 3, "max_answer_length": 5}
    lengths |= {"mask_padding_in_loss": masks, "max_seq_length": 50}
    path = random_model(make_v1_head(masks), task="squad-1.1", **lengths)
    model = load_model(path, "tensorflow")
    fed, pad = set(), base.padded
    monkeypatch.setattr(base, "padded", lambda ids, n: fed.add(n) or pad(ids, n))
    model.answer("what?", ["a b"])
    model.answer("what?", ["a b c d e f g h " * 20])
    assert fed == ({16, 50} if masks else {50})


TEXT = 'First line.\nThe "second" one. It has two sentences! And a\nthird line? Yes.'


def located(piece: str, text: str = TEXT):
    start = text.index(piece)
    return location_of(text, start, start + len(piece))


def test_an_answer_has_its_line_character_and_sentence():
    for piece, line, character, sentence in (
        ("First", 1, 1, "First line."),
        ("second", 2, 6, 'The "second" one.'),
        ("two", 2, 26, "It has two sentences!"),
        ("third", 3, 1, "And a\nthird line?"),
        ("Yes.", 3, 13, "Yes."),
        ("sentences! And", 2, 30, "It has two sentences! And a\nthird line?"),
        ("one. It", 2, 14, 'The "second" one. It has two sentences!'),
    ):
        *location, start = located(piece)
        assert location == [line, character, sentence]
        assert sentence[start:].startswith(piece)
    # Paragraphs, and scripts without spaces.
    assert located("b", "a\n\nb c\n \nd")[2] == "b c"
    assert located("二", "一。二三。四")[2] == "二三。"
    assert located("b", 'He said "a." Then b.')[2] == "Then b."

    # A long sentence is shortened.
    _, character, sentence, _ = located("here", "x " * 1000 + "here" + " y" * 1000)
    assert sentence.startswith("…x ") and sentence.endswith(" y…")
    assert (len(sentence), character) == (200 + 4 + 200 + 2, 2001)
    # No ellipsis where the sentence ends there.
    text = "Before. " + "x" * 200 + "here" + "y" * 199 + ". After."
    assert located("here", text)[2] == "x" * 200 + "here" + "y" * 199 + "."
