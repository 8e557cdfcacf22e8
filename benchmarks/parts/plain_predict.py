"""A plain program that predicts with a peer: loads the model and ready features, and writes JSON.

The features come from a file of NumPy. Batches have features of similar length, long ones first,
and are padded to their longest. The answer to a feature is its most probable start and end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import numpy as np

from benchmarks.parts.program import Batch, batch_of


def main() -> None:
    """Predicts all features and writes their answers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("kind", "model", "features", "output", "dtype", "device"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--batch_size", type=int)
    parser.add_argument("--options", type=json.loads)
    parser.set_defaults(data="dev")
    flags = parser.parse_args()
    with np.load(flags.features) as file:
        records = {name: file[name] for name in file.files}
    predict = predictor(flags)
    order = np.argsort(-records["input_mask"].sum(axis=1), kind="stable")
    answers = {}
    for first in range(0, len(order), flags.batch_size):
        rows = order[first : first + flags.batch_size]
        positions = (scores.argmax(axis=1).tolist() for scores in predict(batch_of(records, rows)))
        for row, *answer in zip(rows.tolist(), *positions, strict=True):
            answers[row] = answer
    with open(flags.output, "w", encoding="utf-8") as file:
        json.dump(answers, file)


def predictor(flags: argparse.Namespace) -> Callable[[Batch], list[np.ndarray]]:
    """Loads a peer; returns a function that returns the scores of starts and ends."""
    if flags.kind == "onnxruntime":
        from benchmarks.parts import onnx_runtime

        session = onnx_runtime.load(flags)
        return lambda batch: onnx_runtime.predict(session, batch)
    from benchmarks.parts.pytorch import Model

    model = Model(flags)
    model.module.eval()
    return model.predict


if __name__ == "__main__":
    main()
