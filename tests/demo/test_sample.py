"""The sample must be read: neither position nor matching words give its answers away.

Also tests the demo's report on a finished run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import sys

import pytest

from albert.core.errors import UserError
from albert.demo import demo
from albert.demo.generate import generate, text_of
from albert.demo.relations import RELATIONS
from albert.tasks.squad.scoring import f1_score, metric_max_over_ground_truths
from tests.helpers.forking import ROOT
from tests.helpers.running import run


def paragraphs(file: dict) -> list[dict]:
    return [p for article in file["data"] for p in article["paragraphs"]]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_a_guess_without_the_question_scores_low():
    """The guess is the answer of a paragraph that scores best over all of its questions."""
    scores = []
    for paragraph in paragraphs(generate(1)[1]):
        truths = [[a["text"] for a in q["answers"]] for q in paragraph["qas"]]
        of_guesses = [
            [metric_max_over_ground_truths(f1_score, guess, true) for true in truths]
            for guess in sorted(set(itertools.chain(*truths)))
        ]
        scores += max(of_guesses, key=sum)
    assert sum(scores) / len(scores) < 0.4


def test_texts_and_questions_share_only_common_words():
    common = {"the", "of", "in", "a", "is", "was", "it", "its", "to", "by", "be", "for", "has"}
    for relation in RELATIONS:
        said = set(words(" ".join(relation.clauses))) - common - {"v"}
        asked = set(words(" ".join(relation.questions))) - common - {"e"}
        assert not said & asked


def test_answers_are_at_their_offsets_and_ids_unique():
    train, dev = generate(1)
    questions = [(p, q) for f in (train, dev) for p in paragraphs(f) for q in p["qas"]]
    assert len({q["id"] for _, q in questions}) == len(questions)
    for paragraph, question in questions:
        for answer in question["answers"]:
            assert paragraph["context"].startswith(answer["text"], answer["answer_start"])
    assert {len(q["answers"]) for p in paragraphs(train) for q in p["qas"]} == {1}
    assert {len(q["answers"]) for p in paragraphs(dev) for q in p["qas"]} == {1, 2}
    assert all(len(p["qas"]) >= 4 for p in paragraphs(train) + paragraphs(dev))
    # As text with one sentence per line.
    texts = list(filter(None, text_of(dev).split("\n\n")))
    assert [text.replace("\n", " ") for text in texts] == [p["context"] for p in paragraphs(dev)]
    assert all(line.endswith(".") for text in texts for line in text.splitlines())


def test_the_splits_share_no_article_and_no_name():
    train, dev = generate(1)
    assert not {a["title"] for a in train["data"]} & {a["title"] for a in dev["data"]}

    def things(file):
        return {re.search(r" called (\w+)\.", p["context"]).group(1) for p in paragraphs(file)}

    def family_names(file):
        text = " ".join(p["context"] for p in paragraphs(file))
        return set(re.findall(r"[A-Z]\w+ ([A-Z]\w+(?:son|man|berg))\b", text))

    assert not things(train) & things(dev)
    assert family_names(dev)
    assert not family_names(train) & family_names(dev)


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    """Even in processes with different hashes of strings; another seed gives other bytes."""
    contents = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        command = [sys.executable, "-m", "albert.demo.generate", f"--output_dir={tmp_path / name}"]
        options = [f"--seed={seed}", "--train_articles=5", "--dev_articles=2"]
        assert run(command + options, cwd=ROOT).returncode == 0
        files = [tmp_path / name / f"{part}-v1.1.json" for part in ("train", "dev")]
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1] != contents[2]
    assert len(json.loads(contents[0][0])["data"]) == 5


def test_too_many_articles_for_the_names_are_an_error(tmp_path):
    """575 syllables and three endings give 1725 family names; 2000 articles need more."""
    command = [sys.executable, "-m", "albert.demo.generate", f"--output_dir={tmp_path}/out"]
    result = run([*command, "--train_articles=2000"], cwd=ROOT)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "albert.demo.generate: error: these are too many articles for the 1725 available names; "
    )
    assert not (tmp_path / "out").exists()


def test_version_2_adds_unanswerable_questions():
    """The text and the answerable questions are those of version 1; half of the questions have no
    answer."""
    one, two = (generate(1, version=version)[1] for version in ("1.1", "2.0"))
    of_question = {
        re.escape(text).replace(r"\{e\}", ".+"): relation
        for relation in RELATIONS
        for text in relation.questions
    }
    plausible = 0
    for old, new in zip(*map(paragraphs, (one, two)), strict=True):
        context = new["context"]
        answerable = [q for q in new["qas"] if not q["is_impossible"]]
        assert old["context"] == context
        assert [{**q, "is_impossible": False} for q in old["qas"]] == answerable
        assert len(new["qas"]) == 2 * len(old["qas"])
        for question in new["qas"]:
            (relation,) = (
                r for text, r in of_question.items() if re.fullmatch(text, question["question"])
            )
            clauses = [clause.split("{v}") for clause in relation.clauses]
            told = any(all(part in context for part in parts) for parts in clauses)
            assert told != question["is_impossible"]
            for answer in question.get("plausible_answers", []):
                assert context.startswith(answer["text"], answer["answer_start"])
                plausible += 1
    assert plausible > 20


# The demo.


@pytest.mark.parametrize(
    ("results", "shown", "problem"),
    [
        ({"exact_match": 50.0, "f1": 79.9}, "F1 79.9", "F1 is below 80"),
        ({"exact_match": 50.0, "f1": 80.0}, "F1 80.0", ""),
        ({"f1": 70.0, "HasAns_f1": 60.0, "NoAns_f1": 80.0}, "F1 without one 80.0", ""),
        ({"f1": 69.9, "HasAns_f1": 60.0, "NoAns_f1": 79.8}, "", "F1 is below 70"),
        ({"f1": 70.0, "HasAns_f1": 59.9, "NoAns_f1": 80.1}, "", "HasAns_F1 is below 60"),
        ({"f1": 75.0, "HasAns_f1": 95.0, "NoAns_f1": 55.0}, "", "NoAns_F1 is below 60"),
    ],
)
def test_a_score_that_is_too_low_is_an_error(tmp_path, capsys, results, shown, problem):
    """CI runs the demo and only sees its exit code."""
    version = "1.1" if "exact_match" in results else "2.0"
    _, dev = generate(1, train_articles=0, dev_articles=1, version=version)
    questions = [q for p in dev["data"][0]["paragraphs"] for q in p["qas"]]
    answers = {q["id"]: q["answers"][0]["text"] if q["answers"] else "" for q in questions}
    counts = {"exact": 1.0, "total": 24, "NoAns_total": 12} if version == "2.0" else {}
    files = {"dev": dev, "predictions": answers, "eval_results": {**results, **counts}}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    expected = pytest.raises(UserError, match=problem) if problem else contextlib.nullcontext()
    with expected:
        demo._report(str(tmp_path / "dev.json"), str(tmp_path), "folder", 7)
    output = capsys.readouterr().out
    assert shown in output and questions[0]["question"][:50] in output


def test_next_commands_can_be_pasted_into_a_shell(capsys):
    """`tests/readme/walk_through.py` runs them."""
    inside = os.path.join(os.getcwd(), "my demo", "run")
    paths = {"train_file": "/data/my train.json", "output_dir": f"{inside}-own"}
    demo._name_next_commands(["squad", "2.0"], paths, inside)
    words = shlex.split(capsys.readouterr().out.replace("\\\n", ""), comments=True)
    python = sys.executable.removeprefix(f"{os.getcwd()}/")
    commands = " ".join(words).split(f"{python} -m albert ")[1:]
    assert [command.split()[0] for command in commands] == ["ask", "serve", "squad"]
    assert words.count("my demo/run") == 2
    assert {"--train_file=/data/my train.json", "--output_dir=my demo/run-own"} <= set(words)
