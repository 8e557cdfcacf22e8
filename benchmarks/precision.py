"""Fine-tunes on the sample in float32 and in bfloat16, and shows curves and scores side by side.

  make bench-precision   or: python -m benchmarks.precision [--configs bf16_config/albert.json ...]

The runs are `run_squad_v1.py` with the flags of `make demo`, the same seed and data, with the
configurations in TF_BF16_CONVERSION. On a CPU without bfloat16 instructions a step takes longer
than in float32; what is to be seen is the effect on loss and scores, not the speed on a card.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from sample.demo import ROOT, RUN_FLAGS
from sample.generate import DEV_FILE, TRAIN_FILE

FLOAT32 = "float32"
ROWS = 10


def main() -> None:
    """Trains what is not trained yet, then prints the table."""
    flags = parse_flags()
    folder = os.path.abspath(flags.output_dir)
    configs = {os.path.basename(path): os.path.abspath(path) for path in flags.configs}
    # The demo makes the data and the tokenizer; its run is the one in float32.
    run("0", "-m", "sample.demo", f"--output_dir={folder}")
    folders = {FLOAT32: os.path.join(folder, "run-1")}
    for name, path in configs.items():
        folders[name] = os.path.join(folder, f"run-{name}")
        run(path, *training_command(folder, folders[name]))
    print_table({name: losses(run) for name, run in folders.items()})
    print_scores({name: scores(run) for name, run in folders.items()})


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    shipped = [os.path.join(ROOT, "bf16_config", name) for name in ("albert.json", "bert.json")]
    parser.add_argument("--configs", nargs="+", default=shipped)
    parser.add_argument("--output_dir", default=os.path.join(ROOT, "demo_output"))
    return parser.parse_args()


def run(bf16_conversion: str, *arguments: str) -> None:
    """Runs a Python command; it ends at once if its output folder has the results already."""
    environment = {**os.environ, "TF_BF16_CONVERSION": bf16_conversion}
    print(f"\n$ TF_BF16_CONVERSION={bf16_conversion} python {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)


def training_command(folder: str, output_dir: str) -> list[str]:
    """The demo's command with another output folder."""
    paths = {
        "albert_config_file": os.path.join(folder, "model-1", "albert_config.json"),
        "spm_model_file": os.path.join(folder, "model-1", "spm.model"),
        "train_file": os.path.join(folder, "data-1", TRAIN_FILE),
        "predict_file": os.path.join(folder, "data-1", DEV_FILE),
        "output_dir": output_dir,
    }
    return ["run_squad_v1.py", *(f"--{k}={v}" for k, v in {**paths, **RUN_FLAGS}.items())]


def losses(folder: str) -> dict[int, float]:
    """The loss by step, from the curves that a run has written."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "loss":
                    found[event.step] = value.simple_value
    return found


def scores(folder: str) -> dict[str, float]:
    """The scores of a run's best checkpoint."""
    with open(os.path.join(folder, "eval_results.json"), encoding="utf-8") as file:
        return json.load(file)


def print_table(curves: Mapping[str, Mapping[int, float]]) -> None:
    """Mean losses of each tenth of the training, and how far they are from those in float32."""
    last = max(curves[FLOAT32])
    print(f"\n{'mean loss of steps':<20}" + "".join(f"{name:>14}" for name in curves))
    for row in range(ROWS):
        first, end = row * last // ROWS, (row + 1) * last // ROWS
        means = [np.mean([c[s] for s in c if first < s <= end]) for c in curves.values()]
        print(f"{f'{first + 1} to {end}':<20}" + "".join(f"{mean:>14.4f}" for mean in means))


def print_scores(results: Mapping[str, Mapping[str, float]]) -> None:
    """Scores on questions about articles that were not trained on, and differences in F1."""
    for key in ("exact_match", "f1"):
        print(f"{key:<20}" + "".join(f"{result[key]:>14.2f}" for result in results.values()))
    differences = [result["f1"] - results[FLOAT32]["f1"] for result in results.values()]
    print(f"{'f1 - f1 in float32':<20}" + "".join(f"{d:>+14.2f}" for d in differences))


if __name__ == "__main__":
    main()
