"""Prediction that is shared out: every worker's rows end up where their examples stand."""

from __future__ import annotations

import numpy as np
import pytest

from runtime import distributed
from runtime.distributed import Worker
from runtime.prediction import Predictor


def row(number: int) -> dict[str, np.ndarray]:
    """What a model gives for an example."""
    return {"id": np.int32(number), "logits": np.arange(3, dtype=np.float32) - number}


@pytest.mark.parametrize(
    ("workers", "batch_size", "count"),
    [(1, 4, 10), (2, 4, 10), (2, 3, 12), (3, 2, 11), (3, 1, 7), (3, 8, 5)],
)
def test_rows_are_in_the_order_of_the_examples(monkeypatch, workers, batch_size, count):
    """The last batch is filled up; a worker may have no batch at all."""
    numbers = [n if n < count else -1 for n in range(count + -count % batch_size)]
    batches = [numbers[n : n + batch_size] for n in range(0, len(numbers), batch_size)]
    shares = [[n for batch in batches[rank::workers] for n in batch] for rank in range(workers)]
    keys = iter(row(0))

    def gather(values, dtype):
        """What each worker sends of one column; the others as this one."""
        key = next(keys)
        sent = [[np.ravel(row(n)[key]) for n in share if n >= 0] for share in shares]
        assert [v.tolist() for v in values] == [v.tolist() for v in sent[0]]
        assert {v.dtype for v in values} == {dtype}
        return sent

    monkeypatch.setattr(distributed, "_worker", Worker(0, workers, 0, workers, "mpirun"))
    monkeypatch.setattr(distributed, "share", lambda value: value)
    monkeypatch.setattr(distributed, "gather", gather)
    predictor = Predictor(None, None, batch_size, count)
    monkeypatch.setattr(predictor, "_predict", lambda checkpoint: map(row, shares[0]))
    outputs = predictor.outputs("model.ckpt-5")
    assert [output["id"] for output in outputs] == list(range(count))
    for number, output in enumerate(outputs):
        np.testing.assert_array_equal(output["logits"], row(number)["logits"])
