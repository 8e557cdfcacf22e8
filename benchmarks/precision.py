"""Fine-tunes on the sample in float32 and in bfloat16, and shows curves and scores side by side.

Prints tables for an ALBERT and a BERT of the same size, and draws the ALBERT's curves in
`benchmarks/precision.svg`.

  make bench NAME=precision FLAGS="[--configs bf16_config/albert.json ...]"

The runs are `run_squad_v1.py` with the flags of `make demo`, with the same seed and data, and with
the configurations in TF_BF16_CONVERSION. The BERT's vocabulary has the sample's most frequent
words, and letters for the others; its list is `bf16_config/bert.json`. On a CPU without bfloat16
instructions, a step takes longer than in float32; the benchmark shows the effect on loss and
scores, not the speed on a card.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.files import write_json
from albert.demo.demo import CONFIG, RUN_FLAGS, TRAIN_STEPS
from albert.demo.generate import DEV_FILE, TRAIN_FILE
from benchmarks.parts.data import word_pieces
from benchmarks.parts.harness import ROOT, new_parser

FLOAT32 = "float32"
# Of the demo's configuration; its embeddings are as wide as its layers, and layers share nothing.
OF_ALBERT = ("embedding_size", "num_hidden_groups")
ROWS = 10
SHIPPED = [os.path.join(ROOT, "bf16_config", name) for name in ("albert.json", "bert.json")]
FIGURE = os.path.join(ROOT, "benchmarks", "precision.svg")
# Layout of the figure in pixels: its size, and where the axes begin and end.
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 50, 700, 20, 340
COLORS = ("#222222", "#d1495b", "#00798c", "#edae49")


def main() -> None:
    """Makes the missing runs, then prints the tables and draws the figure."""
    flags = parse_flags()
    folder = os.path.abspath(flags.output_dir)
    configs = {os.path.basename(path): os.path.abspath(path) for path in flags.configs}
    # The demo makes the data and the tokenizer; its run is the one in float32.
    run("0", "-m", "albert", "demo", f"--output_dir={folder}")
    folders = {FLOAT32: os.path.join(folder, "run-1")}
    for name, path in configs.items():
        folders[name] = os.path.join(folder, f"run-{name}")
        run(path, *training_command(folder, folders[name], of_albert(folder)))
    bert, of_bert = make_bert(folder), {}
    for name, path in ((FLOAT32, "0"), ("bert.json", SHIPPED[1])):
        of_bert[name] = os.path.join(folder, f"run-bert-{name}")
        run(path, *training_command(folder, of_bert[name], bert))
    curves, results = report("ALBERT", folders)
    report("BERT", of_bert)
    command = shlex.join(["python", "-m", "benchmarks.precision", *sys.argv[1:]])
    write_figure(flags.figure, curves, results, command)


def report(model: str, folders: Mapping[str, str]) -> tuple[dict, dict]:
    """Prints the tables of a model's runs; returns losses by step and scores, by run."""
    curves = {name: losses(run) for name, run in folders.items()}
    results = {name: scores(run) for name, run in folders.items()}
    print(f"\n{model}")
    print_table(curves)
    print_scores(results)
    return curves, results


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument(
        "--configs", nargs="+", default=SHIPPED, help="bfloat16 configurations of the ALBERT"
    )
    parser.add_argument("--output_dir", default=os.path.join(ROOT, "demo_output"))
    parser.add_argument("--figure", default=FIGURE)
    return parser.parse_args()


def run(bf16_conversion: str, *arguments: str) -> None:
    """Runs a Python command; it ends at once if its output folder already has the results."""
    environment = {**os.environ, "TF_BF16_CONVERSION": bf16_conversion}
    print(f"\n$ TF_BF16_CONVERSION={bf16_conversion} python {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)


def of_albert(folder: str) -> dict[str, str]:
    """Returns the flags of the demo's model."""
    return {
        "albert_config_file": os.path.join(folder, "model-1", "albert_config.json"),
        "spm_model_file": os.path.join(folder, "model-1", "spm.model"),
    }


def make_bert(folder: str) -> dict[str, str]:
    """Writes configuration and vocabulary of a BERT for the demo's data; returns its flags."""
    pieces = word_pieces(os.path.join(folder, "data-1", TRAIN_FILE.format("1.1")))
    config = {key: value for key, value in CONFIG.items() if key not in OF_ALBERT}
    os.makedirs(os.path.join(folder, "model-bert"), exist_ok=True)
    paths = {
        "bert_config_file": os.path.join(folder, "model-bert", "bert_config.json"),
        "vocab_file": os.path.join(folder, "model-bert", "vocab.txt"),
    }
    with open(paths["vocab_file"], "w", encoding="utf-8") as file:
        file.write("\n".join(pieces) + "\n")
    write_json(paths["bert_config_file"], config)
    return paths


def training_command(folder: str, output_dir: str, model: Mapping[str, str]) -> list[str]:
    """Returns the demo's command with another output folder, and the flags of a model."""
    paths = {
        **model,
        "train_file": os.path.join(folder, "data-1", TRAIN_FILE.format("1.1")),
        "predict_file": os.path.join(folder, "data-1", DEV_FILE.format("1.1")),
        "output_dir": output_dir,
    }
    options = {**paths, **RUN_FLAGS, "train_steps": TRAIN_STEPS["1.1"]}
    return ["run_squad_v1.py", *(f"--{k}={v}" for k, v in options.items())]


def losses(folder: str) -> dict[int, float]:
    """Returns the loss by step, from the curves of a run."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "loss":
                    found[event.step] = value.simple_value
    return found


def scores(folder: str) -> dict[str, float]:
    """Returns the scores of a run's best checkpoint."""
    with open(os.path.join(folder, "eval_results.json"), encoding="utf-8") as file:
        return json.load(file)


def print_table(curves: Mapping[str, Mapping[int, float]]) -> None:
    """Prints mean losses of each tenth of the training, and their differences from float32's."""
    last = max(curves[FLOAT32])
    print(f"\n{'mean loss of steps':<20}" + "".join(f"{name:>14}" for name in curves))
    for rows in zip(*(means(curve, last, ROWS) for curve in curves.values()), strict=True):
        first, end, _ = rows[0]
        print(f"{f'{first + 1} to {end}':<20}" + "".join(f"{mean:>14.4f}" for *_, mean in rows))


def means(curve: Mapping[int, float], last: int, parts: int) -> Iterator[tuple[int, int, float]]:
    """Yields, for equal parts of a training: the steps before and at its end, and the mean loss.

    Args:
      curve: losses by step, at least one in every part.
      last: the last step.
      parts: the number of parts.
    """
    for part in range(parts):
        first, end = part * last // parts, (part + 1) * last // parts
        yield first, end, float(np.mean([curve[s] for s in curve if first < s <= end]))


def print_scores(results: Mapping[str, Mapping[str, float]]) -> None:
    """Prints scores on articles outside the training data, and differences in F1."""
    for key in ("exact_match", "f1"):
        print(f"{key:<20}" + "".join(f"{result[key]:>14.2f}" for result in results.values()))
    differences = [result["f1"] - results[FLOAT32]["f1"] for result in results.values()]
    print(f"{'f1 - f1 in float32':<20}" + "".join(f"{d:>+14.2f}" for d in differences))


def write_figure(
    path: str,
    curves: Mapping[str, Mapping[int, float]],
    results: Mapping[str, Mapping[str, float]],
    command: str,
) -> None:
    """Writes an SVG of the mean losses of every fiftieth of the training.

    Args:
      path: the file to write.
      curves: losses by step, by name.
      results: scores by name, of which F1 is shown.
      command: the command that made the figure, which is also shown.
    """
    last = max(curves[FLOAT32])
    lines = {
        name: [(end, mean) for _, end, mean in means(curve, last, 50)]
        for name, curve in curves.items()
    }
    highest = max(mean for line in lines.values() for _, mean in line)

    def x(step: float) -> float:
        return LEFT + (RIGHT - LEFT) * step / last

    def y(loss: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * loss / highest

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#222222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for loss in range(int(highest) + 1):
        parts += [
            f'<path d="M{LEFT} {y(loss):.1f}H{RIGHT}" stroke="#dddddd"/>',
            _text(LEFT - 8, y(loss) + 4, str(loss), "end"),
        ]
    parts += [_text(x(s), BOTTOM + 18, f"{s:,}", "middle") for s in _round_steps(last)]
    parts.append(_text((LEFT + RIGHT) / 2, BOTTOM + 36, "training loss by step", "middle"))
    for number, (name, line) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in line)
        height = TOP + 18 * (number + 1)
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>',
            f'<path d="M{RIGHT - 210} {height - 4}h24" stroke="{color}" stroke-width="3"/>',
            _text(RIGHT - 180, height, f"{name}: F1 {results[name]['f1']:.2f}", "start"),
        ]
    parts += [_text(LEFT, HEIGHT - 8, f"made by {command}", "start"), "</svg>"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_steps(last: int) -> range:
    """Returns about 5 to 10 steps from 0 on, spaced by 1, 2 or 5 times a power of ten."""
    power = 10 ** max(len(str(last)) - 2, 0)
    apart = next(n * power for n in (1, 2, 5, 10, 20) if last <= 10 * n * power)
    return range(0, last + 1, apart)


if __name__ == "__main__":
    main()
