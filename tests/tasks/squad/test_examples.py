"""read_squad_examples(): SQuAD JSON of both versions, useless questions, and malformed files."""

import itertools
import logging

import pytest

from albert.core.errors import UserError
from albert.squad_utils import read_squad_examples
from albert.tasks.squad.feature_files import read_examples
from albert.tasks.squad.questions import Questions, QuestionSource

TEXT = "Rivers run to the sea. The sea is not full."


def question(qas_id="q1", text="Where do rivers run?", answers=(("the sea", 14),), **more):
    """Returns a question in the file's form; `answers` are pairs of text and answer_start."""
    answers = [{"text": answer, "answer_start": start} for answer, start in answers]
    return {"id": qas_id, "question": text, "answers": answers, **more}


def article(text, *questions):
    return {"title": "T", "paragraphs": [{"context": text, "qas": list(questions)}]}


def squad(*questions, text=TEXT):
    return {"version": "1.1", "data": [article(text, *questions)]}


def ids_of(examples):
    return [example.qas_id for example in examples]


class TestRead:
    @pytest.mark.parametrize("is_training", [True, False])
    def test_an_example_has_the_questions_fields(self, write, is_training):
        (example,) = read_squad_examples(write(squad(question())), is_training)
        assert vars(example) == {
            **{"qas_id": "q1", "question_text": "Where do rivers run?", "paragraph_text": TEXT},
            "orig_answer_text": "the sea" if is_training else None,
            "start_position": 14 if is_training else None,
            **{"end_position": None, "is_impossible": False},
        }

    def test_prediction_keeps_every_question_in_file_order(self, write):
        plain = question("4")
        del plain["answers"]
        several = question("6", answers=(("sea", 3), ("full", 38)))
        others = question("2", text=""), question("3", answers=()), plain
        last = {**question("5"), "answers": None}, several
        articles = [article("", question("1")), article(TEXT, *others), article(TEXT, *last)]
        examples = read_squad_examples(write({"data": articles}), is_training=False)
        assert ids_of(examples) == list("123456")


# Articles in which each question, u and perhaps v and w, is useless for this reason.
USELESS = {
    "the context is empty": [article(" \n\t ", question("u")), article("", question("v"))],
    "the question is empty": [
        article(TEXT, question("u", text=""), question("v", " \t", (), is_impossible=True))
    ],
    "there is no answer": [
        article(TEXT, question("u", answers=()), {**question("v"), "answers": None})
    ],
    "the answer is empty": [
        article(TEXT, question("u", answers=[("", 3)]), question("v", answers=[(" ", 6)]))
    ],
    "the answer is not at its answer_start": [
        article(TEXT, question("u", answers=[("the sea", 13)])),
        # Counted from the end, the offset would be valid.
        article(TEXT, question("v", answers=[("not", -9)])),
        article(TEXT, question("w", answers=[("full.", len(TEXT) + 5)])),
    ],
}


class TestLeftOut:
    @pytest.mark.parametrize("reason", USELESS)
    def test_skipped_questions_are_counted_and_logged_by_reason(self, reason, write, log):
        content = {"data": [*USELESS[reason], article(TEXT, question("good"))]}
        path = write(content)
        assert ids_of(read_squad_examples(path, is_training=True)) == ["good"]
        ids = ["u", "v", "w"][: 3 if "not at" in reason else 2]
        line = f"{path}: skipped {len(ids)} questions: {reason}: {', '.join(ids)}"
        assert log(logging.WARNING) == [line]
        _, left_out = read_examples(Questions(QuestionSource(path)), is_training=True)
        assert left_out == {reason: len(ids)}


PARAGRAPH, QUESTION = ("paragraphs", 0), ("paragraphs", 0, "qas", 1)
ANSWER = (*QUESTION, "answers", 0)
# Members of the second of two articles, which has two questions; their locations and types.
WRONG = [
    ((), "paragraphs", "", "a list"),
    (PARAGRAPH, "context", ".paragraphs[0]", "a text"),
    (PARAGRAPH, "qas", ".paragraphs[0]", "a list"),
    (QUESTION, "id", ".paragraphs[0].qas[1]", "a text"),
    (QUESTION, "question", ".paragraphs[0].qas[1]", "a text"),
    (ANSWER, "text", ".paragraphs[0].qas[1].answers[0]", "a text"),
    (ANSWER, "answer_start", ".paragraphs[0].qas[1].answers[0]", "a whole number"),
]
# Values that are neither text, list nor whole number, and the number 0 as a text.
OTHERS = {1.5: "1.5", None: "null", True: "true", 0.0: "0.0", "0": '"0"'}


class TestErrors:
    def test_a_file_without_usable_questions_or_that_is_not_squad_is_an_error(self, write):
        for content in ("{", "null", "{}", '{"data": {}}', "", '{"a": 1}', "a,b\n1,2\n"):
            is_document = content[:1] in ("{", "[") and content != '{"a": 1}'
            what = "is not JSON" if content == "{" else f'{"no" * is_document}.* list "data"'
            with pytest.raises(UserError, match=f"{write(content)} .*{what}"):
                len(Questions(QuestionSource(write(content))))
        empty = [({"data": []}, "it has none"), ([], "it has none"), (squad(), "it has none")]
        useless = [*(question(f"n{i}", answers=()) for i in range(5)), question("e", text="")]
        reasons = "1 the question is empty, 5 there is no answer"
        for content, message in (*empty, (squad(*useless), reasons)):
            path = write(content)
            for training in {True, message == reasons}:
                with pytest.raises(UserError, match=f"{path}: no usable questions .{message}."):
                    read_squad_examples(path, training)

    @pytest.mark.parametrize(("steps", "key", "location", "kind"), WRONG)
    @pytest.mark.parametrize("wrong", ["missing", *OTHERS])
    def test_a_missing_or_wrong_value_is_named_with_its_location(
        self, write, steps, key, location, kind, wrong
    ):
        if wrong == "0" and kind == "a text":
            return
        articles = [article(TEXT, question("a")), article(TEXT, question("b"), question("c"))]
        owner = articles[1]
        for step in steps:
            owner = owner[step]
        if wrong == "missing":
            del owner[key]
        else:
            owner[key] = wrong
        path = write({"data": articles})
        for training in (True, False):
            if key == "answer_start" and not training:
                # Scores only need the text.
                assert len(read_squad_examples(path, training)) == 3
                continue
            with pytest.raises(UserError) as caught:
                read_squad_examples(path, training)
            message = f'{location}: "{key}" must be {kind}, not {OTHERS.get(wrong, wrong)}'
            assert str(caught.value) == f"{path} is not SQuAD: data[1]{message}"

    def test_a_value_of_another_type_is_an_error(self, write):
        location = ".paragraphs[0].qas[0]"
        # The text "false" is true in Python, and would remove the answer.
        message = f'{location}: "is_impossible" must be true or false, not'
        articles = [("x", ""), ({"paragraphs": [7]}, ".paragraphs[0]")]
        articles.append((article(TEXT, None), location))
        for answers in ("word", 3, {"text": "the sea"}, ["the sea"], [None]):
            articles.append((article(TEXT, {**question(), "answers": answers}), location))
        for value in ("false", 0, []):
            articles.append((article(TEXT, question(is_impossible=value)), message))
        for (wrong, message), training in itertools.product(articles, (True, False)):
            path = write({"data": [wrong]})
            with pytest.raises(UserError) as caught:
                read_squad_examples(path, training)
            assert str(caught.value).startswith(f"{path} is not SQuAD: data[0]{message}")

    def test_several_answers_and_repeated_ids_are_errors(self, write):
        path = write(squad(question("two", answers=(("the sea", 14), ("sea", 18)))))
        with pytest.raises(UserError, match=f"{path}.* two has 2 answers.*development file"):
            read_squad_examples(path, is_training=True)
        articles = [article(TEXT, question("x"), question("y")), article("", question("x"))]
        message = r"question id x occurs twice \(data\[1\].paragraphs\[0\].qas\[0\]\)$"
        with pytest.raises(UserError, match=message):
            read_squad_examples(write({"data": articles}), is_training=False)


class TestVersion2:
    def test_a_question_without_a_mark_is_judged_by_its_answers(self, write):
        unknown = question("f")
        del unknown["answers"]
        content = squad(
            question("a"),
            question("b", answers=()),
            question("c", answers=(), is_impossible=False),
            question("d", is_impossible=True),
            question("e", answers=(), is_impossible=True, plausible_answers=[1]),
            unknown,
            question("g", is_impossible=None),
            question("h", answers=(), is_impossible=None),
        )
        questions = Questions(QuestionSource(write(content)))
        examples, left_out = read_examples(questions, True, unanswerable=True)
        expected = {"a": False, "b": True, "e": True, "f": True, "g": False, "h": True}
        assert {e.qas_id: e.is_impossible for e in examples} == expected
        reasons = "there is no answer", "it is impossible, and has an answer"
        assert left_out == dict.fromkeys(reasons, 1)
        impossible = [(e.start_position, e.orig_answer_text) for e in examples if e.is_impossible]
        assert impossible == [(-1, "")] * 4
        # SQuAD 1.1: b, f and h are skipped, and d keeps its mark, as in the reference.
        examples, _ = read_examples(questions, True)
        positions = [(e.qas_id, e.start_position, e.is_impossible) for e in examples]
        marked = [(name, -1, True) for name in "de"]
        assert positions == [("a", 14, False), *marked, ("g", 14, False)]
