"""What the demo says of a run that has ended."""

from __future__ import annotations

import json

import pytest

from sample import demo
from sample.generate import generate


@pytest.mark.parametrize(("f1", "code"), [(79.9, 1), (80.0, 0), (95.0, 0)])
def test_a_score_that_is_too_low_is_a_failure(tmp_path, capsys, f1, code):
    """CI runs the demo and sees its exit code alone."""
    _, dev = generate(1, train_articles=0, dev_articles=1)
    questions = [q for p in dev["data"][0]["paragraphs"] for q in p["qas"]]
    predictions = {q["id"]: q["answers"][0]["text"] for q in questions}
    for name, content in {
        "dev.json": dev,
        "predictions.json": predictions,
        "eval_results.json": {"exact_match": 50.0, "f1": f1},
    }.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert demo._report(str(tmp_path / "dev.json"), str(tmp_path), "folder", 7) == code
    output = capsys.readouterr()
    assert f"F1 {f1:.1f}" in output.out and questions[0]["question"][:50] in output.out
    assert output.err == ("demo: error: F1 is below 80\n" if code else "")
