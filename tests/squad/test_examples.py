"""read_squad_examples(): SQuAD JSON of both versions, useless questions, and broken files."""

import copy
import json
import logging

import pytest
import tensorflow.compat.v1 as tf

from runtime.errors import UserError
from squad.examples import check_all_answerable, load_squad, read_examples
from squad_utils import SquadExample, read_squad_examples

TEXT = "Rivers run to the sea. The sea is not full."


def question(qas_id="q1", text="Where do rivers run?", answers=(("the sea", 14),), **more):
    """A question as the file has it; `answers` are pairs of text and answer_start."""
    answers = [{"text": answer, "answer_start": start} for answer, start in answers]
    return {"id": qas_id, "question": text, "answers": answers, **more}


def squad(*questions, text=TEXT):
    """A file's content with one paragraph."""
    return {"version": "1.1", "data": [article(text, *questions)]}


def article(text, *questions):
    return {"title": "T", "paragraphs": [{"context": text, "qas": list(questions)}]}


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path; strings and bytes as they are, the rest as JSON."""

    def write(content, name="file.json"):
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        if isinstance(content, str):
            content = content.encode()
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return write


@pytest.fixture
def warnings(caplog, monkeypatch):
    """The warnings logged so far."""
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level(logging.INFO, tf.get_logger().name)
    return lambda: [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def fields(example):
    return vars(example)


def expected(**changes):
    """The example of `question()` in training."""
    values = {
        "qas_id": "q1",
        "question_text": "Where do rivers run?",
        "paragraph_text": TEXT,
        "orig_answer_text": "the sea",
        "start_position": 14,
        "end_position": None,
        "is_impossible": False,
    }
    return {**values, **changes}


class TestVersions:
    def test_training_takes_the_answer_as_it_stands(self, write):
        examples = read_squad_examples(write(squad(question())), is_training=True)
        assert list(map(fields, examples)) == [expected()]

    def test_prediction_takes_no_answer(self, write):
        examples = read_squad_examples(write(squad(question())), is_training=False)
        assert list(map(fields, examples)) == [expected(orig_answer_text=None, start_position=None)]

    def test_impossible_question_of_version_2(self, write):
        content = squad(
            question("a", is_impossible=False), question("b", answers=(), is_impossible=True)
        )
        examples = read_squad_examples(write(content), is_training=True)
        assert list(map(fields, examples)) == [
            expected(qas_id="a"),
            expected(qas_id="b", orig_answer_text="", start_position=-1, is_impossible=True),
        ]

    def test_plausible_answers_of_an_impossible_question_do_not_count(self, write):
        wrong = [{"text": "full", "answer_start": 38}]
        content = squad(question(answers=(), is_impossible=True, plausible_answers=wrong))
        (example,) = read_squad_examples(write(content), is_training=True)
        assert (example.orig_answer_text, example.start_position) == ("", -1)

    def test_prediction_keeps_every_question_in_file_order(self, write):
        content = {
            "data": [
                article("", question("1")),
                article(TEXT, question("2", text=""), question("3", answers=())),
                article(TEXT, question("4", answers=(("sea", 3), ("full", 38)))),
            ]
        }
        examples = read_squad_examples(write(content), is_training=False)
        assert [e.qas_id for e in examples] == ["1", "2", "3", "4"]

    def test_prediction_needs_no_answers_at_all(self, write):
        plain = question()
        del plain["answers"]
        nothing = {**question("q2"), "answers": None}
        examples = read_squad_examples(write(squad(plain, nothing)), is_training=False)
        assert [e.qas_id for e in examples] == ["q1", "q2"]

    @pytest.mark.parametrize("name", ["train-v1.1", "train-v2.0"])
    def test_real_training_files(self, shared, name, warnings):
        path = shared / "data" / "squad" / f"{name}.json"
        rows = [
            (q["id"], p["context"], q.get("is_impossible", False), q["answers"])
            for a in json.loads(path.read_text(encoding="utf-8"))["data"]
            for p in a["paragraphs"]
            for q in p["qas"]
        ]
        examples = read_squad_examples(str(path), is_training=True)
        assert len(rows) > 1000 and not warnings()
        for example, (qas_id, context, impossible, answers) in zip(examples, rows, strict=True):
            assert (example.qas_id, example.is_impossible) == (qas_id, impossible)
            start, text = example.start_position, example.orig_answer_text
            if impossible:
                assert (start, text) == (-1, "")
            else:
                assert {"text": text, "answer_start": start} == answers[0]
                assert context.startswith(text, start)

    def test_lone_surrogates_are_read(self, write):
        text, answer = "a\ud800b \udfff sea", "\udfff sea"
        path = write(squad(question(answers=((answer, 4),)), text=text))
        (example,) = read_squad_examples(path, is_training=True)
        assert (example.paragraph_text, example.orig_answer_text) == (text, answer)

    def test_repr_names_the_question(self):
        text = repr(SquadExample("id7", "Who?", "x" * 1000, "me", 3))
        assert "'id7'" in text and "'Who?'" in text and "'me'" in text
        assert len(text) < 250


USELESS = {
    "the paragraph is empty": [article(" \n\t ", question("u")), article("", question("v"))],
    "the question is empty": [article(TEXT, question("u", text=""), question("v", text=" \t"))],
    "there is no answer": [
        article(TEXT, question("u", answers=()), {**question("v"), "answers": None})
    ],
    "the answer is empty": [
        article(TEXT, question("u", answers=(("", 3),)), question("v", answers=((" ", 6),)))
    ],
    "the answer is not at its answer_start": [
        article(TEXT, question("u", answers=(("the sea", 13),))),
        article(TEXT, question("v", answers=(("full.", len(TEXT) + 5),))),
    ],
}


class TestLeftOut:
    @pytest.mark.parametrize("reason", USELESS)
    def test_reason_is_counted_and_logged_with_ids(self, reason, write, warnings):
        content = {"data": [*USELESS[reason], article(TEXT, question("good"))]}
        path = write(content)
        examples = read_squad_examples(path, is_training=True)
        assert [e.qas_id for e in examples] == ["good"]
        assert warnings() == [f"{path}: 2 questions left out: {reason}: u, v"]
        _, left_out = read_examples(content["data"], path, is_training=True)
        assert left_out.counts == {reason: 2}

    def test_a_negative_answer_start_does_not_count_from_the_end(self, write, warnings):
        bad = question("bad", answers=(("not", -9),))
        assert TEXT[-9:-6] == "not"
        examples = read_squad_examples(write(squad(bad, question())), is_training=True)
        assert [e.qas_id for e in examples] == ["q1"]
        assert "not at its answer_start: bad" in warnings()[0]

    def test_every_reason_has_a_line_and_names_three_at_most(self, write, warnings):
        bad = [question(f"n{i}", answers=()) for i in range(5)]
        odd = [question(f"e{i}", text="") for i in range(3)]
        path = write(squad(*bad, question(), *odd))
        read_squad_examples(path, is_training=True)
        assert warnings() == [
            f"{path}: 5 questions left out: there is no answer: n0, n1, n2, ...",
            f"{path}: 3 questions left out: the question is empty: e0, e1, e2",
        ]

    def test_an_impossible_question_without_text_is_left_out_too(self, write, warnings):
        blank = question("blank", text="", answers=(), is_impossible=True)
        examples = read_squad_examples(write(squad(question(), blank)), is_training=True)
        assert [e.qas_id for e in examples] == ["q1"]
        assert len(warnings()) == 1

    def test_all_questions_useless(self, write):
        articles = copy.deepcopy([a for articles in USELESS.values() for a in articles])
        paragraphs = [article["paragraphs"][0] for article in articles]
        for number, useless in enumerate(q for p in paragraphs for q in p["qas"]):
            useless["id"] = str(number)
        with pytest.raises(UserError, match="no question that can be used") as caught:
            read_squad_examples(write({"data": articles}), is_training=True)
        assert all(f"2 {reason}" in str(caught.value) for reason in USELESS)

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("content", [{"data": []}, squad(), {"data": [{"paragraphs": []}]}])
    def test_no_question_at_all(self, write, content, training):
        path = write(content)
        with pytest.raises(UserError, match="no question that can be used .it has none.") as caught:
            read_squad_examples(path, training)
        assert path in str(caught.value)


class TestErrors:
    def test_several_answers_in_training_point_to_a_dev_file(self, write):
        path = write(squad(question("two", answers=(("the sea", 14), ("sea", 18)))))
        with pytest.raises(UserError, match="question two has 2 answers.*dev file") as caught:
            read_squad_examples(path, is_training=True)
        assert path in str(caught.value)

    @pytest.mark.parametrize(
        ("content", "what"),
        [
            ("{", "is not JSON"),
            ("", "is not JSON"),
            ("id\tquestion\n", "is not JSON"),
            ('{"data": []} x', "is not JSON"),
            ("[]", 'no list "data"'),
            ("null", 'no list "data"'),
            ("{}", 'no list "data"'),
            ('{"data": {"title": "x"}}', 'no list "data"'),
            (b'{"data": "\xff"}', "is not UTF-8: byte 10"),
            ('{"data": []}'.encode("utf-16"), "is not UTF-8: byte 0"),
            ("[" * 100_000, "nested too deeply"),
        ],
    )
    def test_file_that_is_no_squad(self, write, content, what):
        path = write(content)
        with pytest.raises(UserError, match=what) as caught:
            load_squad(path)
        assert path in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1

    def test_a_byte_order_mark(self, tmp_path):
        (tmp_path / "marked.json").write_text(json.dumps(squad(question())), encoding="utf-8-sig")
        (example,) = read_squad_examples(str(tmp_path / "marked.json"), is_training=True)
        assert example.qas_id == "q1"

    def test_missing_file(self, tmp_path):
        with pytest.raises(UserError, match=r"nothing\.json cannot be read: No such file"):
            read_squad_examples(str(tmp_path / "nothing.json"), is_training=True)

    def test_folder(self, tmp_path):
        with pytest.raises(UserError, match="is a folder, not a file") as caught:
            read_squad_examples(str(tmp_path), is_training=False)
        assert str(tmp_path) in str(caught.value)

    @pytest.mark.parametrize(
        ("place", "key", "message"),
        [
            ((), "paragraphs", 'data[1] has no list "paragraphs"'),
            (("paragraphs", 0), "context", 'data[1].paragraphs[0] has no str "context"'),
            (("paragraphs", 0), "qas", 'data[1].paragraphs[0] has no list "qas"'),
            (("paragraphs", 0, "qas", 1), "id", 'data[1].paragraphs[0].qas[1] has no str "id"'),
            (
                ("paragraphs", 0, "qas", 1),
                "question",
                'data[1].paragraphs[0].qas[1] has no str "question"',
            ),
            (
                ("paragraphs", 0, "qas", 1, "answers", 0),
                "text",
                'data[1].paragraphs[0].qas[1].answers has no str "text"',
            ),
            (
                ("paragraphs", 0, "qas", 1, "answers", 0),
                "answer_start",
                'data[1].paragraphs[0].qas[1].answers has no int "answer_start"',
            ),
        ],
    )
    @pytest.mark.parametrize("wrong", ["missing", None, 1.5])
    @pytest.mark.parametrize("training", [True, False])
    def test_missing_key_is_named_with_its_place(self, write, place, key, message, wrong, training):
        content = {
            "data": [
                article(TEXT, question("a")),
                article(TEXT, question("b"), question("c")),
            ]
        }
        owner = content["data"][1]
        for step in place:
            owner = owner[step]
        if wrong == "missing":
            del owner[key]
        else:
            owner[key] = wrong
        path = write(content)
        if key == "answer_start" and not training:
            # Scores need the text alone.
            assert len(read_squad_examples(path, training)) == 3
            return
        with pytest.raises(UserError) as caught:
            read_squad_examples(path, training)
        assert str(caught.value) == f"{path} is not SQuAD: {message}"

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("wrong", ["word", 3, {"text": "the sea"}, ["the sea"], [None]])
    def test_answers_of_another_form(self, write, wrong, training):
        path = write(squad({**question(), "answers": wrong}))
        with pytest.raises(UserError, match="is not SQuAD") as caught:
            read_squad_examples(path, training)
        assert path in str(caught.value) and "data[0].paragraphs[0].qas[0]" in str(caught.value)

    @pytest.mark.parametrize("level", ["article", "paragraph", "question"])
    def test_list_member_that_is_no_object(self, write, level):
        content = {
            "article": {"data": ["x"]},
            "paragraph": {"data": [{"paragraphs": [7]}]},
            "question": {"data": [article(TEXT, None)]},
        }[level]
        with pytest.raises(UserError, match="is not SQuAD: data.0."):
            read_squad_examples(write(content), is_training=False)

    @pytest.mark.parametrize("value", ["false", 0, []])
    def test_impossible_or_not_is_true_or_false(self, write, value):
        """The text "false" is true to Python, and would take the answer away."""
        path = write(squad(question("x", is_impossible=value)))
        message = (
            r"data\[0\].paragraphs\[0\].qas\[0\]: \"is_impossible\" must be true or false, not"
        )
        for training in (True, False):
            with pytest.raises(UserError, match=message):
                read_squad_examples(path, training)

    @pytest.mark.parametrize("training", [True, False])
    def test_an_id_that_occurs_twice(self, write, training):
        content = {
            "data": [article(TEXT, question("x"), question("y")), article("", question("x"))]
        }
        path = write(content)
        with pytest.raises(UserError, match="question id x occurs twice") as caught:
            read_squad_examples(path, training)
        assert path in str(caught.value) and "data[1].paragraphs[0].qas[0]" in str(caught.value)


class TestVersion2:
    def test_is_refused_by_the_program_for_1(self, write):
        content = squad(question("a"), question("b", answers=(), is_impossible=True))
        content["data"].append(article(TEXT, question("c", answers=(), is_impossible=True)))
        path = write(content)
        with pytest.raises(UserError) as caught:
            check_all_answerable(path, "--train_file")
        assert str(caught.value) == (
            f"--train_file {path} is SQuAD 2.0: it holds 2 unanswerable questions, the first is b. "
            "run_squad_v2.py takes it"
        )

    def test_what_a_question_without_a_word_on_it_is(self, write):
        """And one that contradicts itself, and plausible answers, which nobody reads."""
        contradiction = question("d", is_impossible=True)
        plausible = {**question("e", answers=(), is_impossible=True), "plausible_answers": [1]}
        unknown = {key: value for key, value in question("f").items() if key != "answers"}
        content = squad(
            question("a"),
            question("b", answers=()),
            question("c", answers=(), is_impossible=False),
            contradiction,
            plausible,
            unknown,
        )
        articles = load_squad(write(content))
        examples, left_out = read_examples(articles, "file", True, unanswerable=True)
        assert {e.qas_id: e.is_impossible for e in examples} == {
            **{"a": False, "b": True, "e": True, "f": True}
        }
        assert left_out.counts == {
            "there is no answer": 1,
            "it is impossible, and has an answer": 1,
        }
        impossible = [(e.start_position, e.orig_answer_text) for e in examples if e.is_impossible]
        assert impossible == [(-1, "")] * 3
        # SQuAD 1.1: b and f are left out, and d is what it says, as in the reference.
        examples, _ = read_examples(articles, "file", True)
        assert [e.qas_id for e in examples] == ["a", "d", "e"]

    @pytest.mark.parametrize(
        "content",
        [
            squad(question()),
            squad(question(is_impossible=False)),
            {"version": "v2.0", **squad(question(is_impossible=False))},
            squad(question(is_impossible=None)),
            squad({**question(), "question": '"is_impossible": true'}),
            '{"is_impossible": false',
        ],
    )
    def test_what_passes(self, write, content):
        """The last is no JSON: what does not look like 2.0 is not parsed here."""
        check_all_answerable(write(content), "--train_file")

    def test_a_file_that_is_not_there_passes(self, tmp_path):
        check_all_answerable(str(tmp_path / "none.json"), "--train_file")

    @pytest.mark.parametrize(("name", "count"), [("train-v2.0", 1790), ("dev-v2.0", 550)])
    def test_real_files(self, shared, name, count):
        path = shared / "data/squad" / f"{name}.json"
        with pytest.raises(UserError, match=f"{count} unanswerable questions"):
            check_all_answerable(str(path), "--predict_file")
        check_all_answerable(str(path).replace("v2.0", "v1.1"), "--predict_file")
