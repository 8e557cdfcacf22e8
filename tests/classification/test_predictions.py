"""Test predictions as files, as the reference and GLUE have them."""

import numpy as np

from classification.predictions import write_predictions


def written(tmp_path, outputs, labels, limits=None):
    files = [tmp_path / name for name in ("results", "submission")]
    ids = [f"id{number}" for number in range(len(outputs))]
    write_predictions(*map(str, files), ids, outputs, labels, limits)
    return [file.read_text(encoding="utf-8").splitlines() for file in files]


def test_classification(tmp_path):
    rows = np.array([[0.25, 0.5, 0.25], [0.125, 0.0, 0.875]], np.float32)
    outputs = [{"probabilities": row, "predictions": np.int32(row.argmax())} for row in rows]
    results, submission = written(tmp_path, outputs, ["contradiction", "entailment", "neutral"])
    assert results == ["0.25\t0.5\t0.25", "0.125\t0.0\t0.875"]
    assert submission == ["index\tprediction", "id0\tentailment", "id1\tneutral"]


def test_regression(tmp_path):
    numbers = np.array([1.25, -0.5, 5.75], np.float32)
    outputs = [{"probabilities": number[None], "predictions": number} for number in numbers]
    results, submission = written(tmp_path, outputs, [None], limits=(0.0, 5.0))
    assert results == ["1.25", "-0.5", "5.75"]
    assert submission == ["index\tprediction", "id0\t1.25", "id1\t0.0", "id2\t5.0"]
    _, submission = written(tmp_path, outputs, [None])
    assert submission[1:] == ["id0\t1.25", "id1\t-0.5", "id2\t5.75"]
