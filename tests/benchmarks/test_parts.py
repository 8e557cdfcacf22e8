"""Tests what benchmarks compute themselves. Full runs take minutes: see `test_tiny_runs.py`."""

from __future__ import annotations

import json

import numpy as np

from albert.tasks.squad.questions import check_all_answerable
from benchmarks import memory
from benchmarks.parts import batches, peer_answers, squad_size


def test_the_largest_batch_is_the_largest_that_fits():
    def needed(size: int) -> int:
        return 100 + max(9 * size, 30 * size - 300)

    wanted = [sum(needed(n) <= size for n in range(1, 100)) for size in range(50, 2000)]
    assert [memory.largest_batch(size, needed) for size in range(50, 2000)] == wanted
    assert {0, 1, 70} < set(wanted)


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
    check_all_answerable(str(path), "the file")
    answers = [(p["context"], a) for p in paragraphs for q in p["qas"] for a in q["answers"]]
    assert all(context.startswith(a["text"], a["answer_start"]) for context, a in answers)


def test_batches_differ_in_length_and_in_rows_without_padding():
    """Sorted ones have the smallest possible padding, and are spread over the lengths."""
    lengths = np.random.RandomState(0).randint(20, 385, 900)
    for is_sorted in (True, False):
        chosen, new = batches.choose(lengths, 8, 12, is_sorted)
        assert chosen.shape == (12, 8) and new == 12
        assert (
            len({*lengths[chosen].max(axis=1)}) == len({*(lengths[chosen].sum(axis=1) // 64)}) == 12
        )
        assert len({*chosen.flat}) == chosen.size
        # Numbers of the shortest feature and the longest one, among the sorted features.
        found = np.sort(lengths).searchsorted(lengths[chosen].min(axis=1))
        if is_sorted:
            assert (np.ptp(lengths[chosen], axis=1) < 20).all()
            assert found[0] < 100 and found[-1] > 800 and (np.diff(found) > 8).all()


def test_answers_are_compared_with_the_peer_of_the_same_round():
    rounds = [{"ours": 3.0, "peer": 2.0}, {"ours": 6.0, "peer": 8.0}, {"ours": 3.0, "peer": 3.0}]
    found = peer_answers.summary(rounds, "peer")
    # Not the ratio of the medians.
    assert found["ours"] == (3.0, 1.0) and found["peer"].times == 1.0
