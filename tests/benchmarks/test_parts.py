"""Tests what benchmarks compute themselves. Full runs take minutes: see `test_tiny_runs.py`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from albert.tasks.squad.questions import check_all_answerable
from benchmarks import memory, precision, zero
from benchmarks.parts import batches, peer_answers, squad_size, turns, whole_programs

SVG = "{http://www.w3.org/2000/svg}"
CURVES = {
    "float32": {step: 4.0 if step <= 500 else 2.0 for step in range(1, 1001)},
    # Logged every tenth step, with a small upward trend.
    "a&b.json": {step: 4.5 if step <= 500 else 2.5 for step in range(10, 1001, 10)},
}
SCORES = {"float32": {"f1": 88.126}, "a&b.json": {"f1": 87.0}}
COMMAND = "python -m benchmarks.precision --configs 'a&b.json'"


def test_the_figure_has_names_scores_axes_and_the_mean_losses(tmp_path):
    precision.write_figure(str(tmp_path / "figure.svg"), CURVES, SCORES, COMMAND)
    figure = ET.parse(tmp_path / "figure.svg").getroot()
    texts = [element.text for element in figure.iter(f"{SVG}text")]
    assert {f"made by {COMMAND}", "float32: F1 88.13", "a&b.json: F1 87.00"} <= set(texts)
    numbers = [float(text.replace(",", "")) for text in texts if text[0].isdigit()]
    assert numbers == [0, 1, 2, 3, 4, *range(0, 1001, 100)]
    lines = [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in figure.iter(f"{SVG}polyline")
    ]
    # A fiftieth of the training each.
    assert [len(line) for line in lines] == [50, 50]
    width, height = float(figure.get("width")), float(figure.get("height"))
    for line in lines:
        assert all(0 < x < width and 0 < y < height for x, y in line)
        assert [x for x, _ in line] == [x for x, _ in lines[0]] == sorted(x for x, _ in line)
        assert len({y for _, y in line[:25]}) == len({y for _, y in line[25:]}) == 1
    # A unit of the loss has the same height everywhere, and points up.
    (high, low), (higher, lower) = ((line[0][1], line[-1][1]) for line in lines)
    unit = (low - high) / 2
    assert unit > 0
    assert high - higher == pytest.approx(unit / 2, abs=0.2)
    assert low - lower == pytest.approx(unit / 2, abs=0.2)


def test_the_largest_batch_is_the_largest_that_fits():
    def needed(size: int) -> int:
        return 100 + max(9 * size, 30 * size - 300)

    wanted = [sum(needed(n) <= size for n in range(1, 100)) for size in range(50, 2000)]
    assert [memory.largest_batch(size, needed) for size in range(50, 2000)] == wanted
    assert {0, 1, 70} < set(wanted)


def test_kept_bytes_count_weights_and_half_of_the_moments():
    """Accumulated gradients count as well."""
    assert zero.kept_bytes(10, 2, "gradients", 4) == 4 * 10 * (1 + 1 + 0.5)
    assert zero.kept_bytes(10, 2, "state", 1) == 4 * 10 * (1 + 1)


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


def test_batches_repeat_where_too_few_shapes_exist():
    lengths = np.array([10, 10, 10, 10, 200, 210, 10, 10])
    chosen, new = batches.choose(lengths, 2, 5, is_sorted=False)
    assert new == 2 and chosen.tolist() == [[0, 1], [4, 5], [2, 3], [6, 7], [0, 1]]


def test_a_file_of_the_first_questions_has_only_their_paragraphs(squad_dir, tmp_path):
    path = tmp_path / "first.json"
    whole_programs.first_questions(str(squad_dir / "dev-v1.1.json"), str(path), 4)
    (article,) = json.loads(path.read_text())["data"]
    assert [len(paragraph["qas"]) for paragraph in article["paragraphs"]] == [3, 1]


def test_ratios_are_of_the_same_turn():
    assert turns.ratios_of([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]
    assert turns.spread([3.0, 2.0, 10.0]) == "3.00 (2.00-10.00)"


def test_answers_are_compared_with_the_fastest_setting_of_the_peer():
    way = "answer, --engine=onnxruntime"
    rounds = [
        {way: 3.0, "spins": 4.0, "waits": 2.0},
        {way: 6.0, "spins": 4.0, "waits": 8.0},
    ]
    rounds += [{way: 3.0, "spins": 4.0, "waits": 3.0}]
    found = peer_answers.summary(rounds, ["spins", "waits"])
    # Not the ratio of the medians.
    assert found[way] == (3.0, 1.0, True) and found["waits"].times == 1.0
    assert not peer_answers.summary(rounds[:1], ["waits"])[way].holds
    assert peer_answers.summary(rounds[:1], ["waits"])["spins"].holds
