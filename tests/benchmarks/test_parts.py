"""Tests what benchmarks compute themselves. Full runs take minutes: see `test_tiny_runs.py`."""

from __future__ import annotations

import json

from benchmarks.parts import peer_answers, squad_size


def test_the_file_of_squads_size_has_unique_ids_and_answers(squad_dir, tmp_path):
    """No id or question occurs twice, and answers are at their offsets."""
    path = tmp_path / "large.json"
    squad_size.write_questions(str(squad_dir / "train-v1.1.json"), str(path), 100)
    articles = json.loads(path.read_text())["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"]]
    questions = [q for p in paragraphs for q in p["qas"]]
    assert 100 <= len(questions) < 150
    for name, objects in (("context", paragraphs), ("question", questions), ("id", questions)):
        assert len({value[name] for value in objects}) == len(objects)
    answers = [(p["context"], a) for p in paragraphs for q in p["qas"] for a in q["answers"]]
    assert all(context.startswith(a["text"], a["answer_start"]) for context, a in answers)


def test_answers_are_compared_with_the_peer_of_the_same_round():
    rounds = [{"ours": 3.0, "peer": 2.0}, {"ours": 6.0, "peer": 8.0}, {"ours": 3.0, "peer": 3.0}]
    found = peer_answers.summary(rounds, "peer")
    # Not the ratio of the medians.
    assert found["ours"] == (3.0, 1.0) and found["peer"].times == 1.0
