"""Fine-tunes on the sample in float32 and in bfloat16, and shows curves and scores side by side.

Prints tables for an ALBERT and a BERT of the same size, and draws the ALBERT's curves in
`benchmarks/precision.svg`. The runs are `run_squad_v1.py` with the flags of `make demo`, with the
same seed and data, and with the configurations in TF_BF16_CONVERSION. The BERT's vocabulary has the
sample's most frequent words, and letters for the others. On a CPU without bfloat16 instructions, a
step takes longer than in float32; the benchmark shows the effect on loss and scores, not the speed
on a card.
"""

import glob
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.files import write_json
from albert.demo.demo import CONFIG, DEV_FILE, RUN_FLAGS, TRAIN_FILE
from benchmarks.parts.flags import parse, write_pieces
from benchmarks.parts.harness import ROOT, Table

FLOAT32 = "float32"
# Of the demo's configuration; a BERT's embeddings are as wide as its layers, which share nothing.
_OF_ALBERT = ("embedding_size", "num_hidden_groups")
# Layout of the figure in pixels: its size, and where the axes begin and end.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 400, 50, 700, 20, 340
_COLORS = ("#222222", "#d1495b", "#00798c", "#edae49")
# Runs by the name of their configuration.
Runs = Mapping[str, str]


def main() -> None:
    """Makes the missing runs, then prints the tables and draws the figure."""
    figure = os.path.join(ROOT, "benchmarks", "precision.svg")
    flags = parse(__doc__, output_dir=os.path.join(ROOT, "demo_output"), figure=figure)
    folder = os.path.abspath(flags.output_dir)
    # The demo makes the data and the tokenizer; its run is the one in float32.
    run("0", "-m", "albert", "demo", f"--output_dir={folder}")
    albert = {"albert_config_file": f"{folder}/model-1/albert_config.json"}
    albert["spm_model_file"] = f"{folder}/model-1/spm.model"
    runs = {FLOAT32: f"{folder}/run-1"}
    runs |= train(folder, albert, "run-{}", "albert.json", "bert.json")
    report("BERT", train(folder, make_bert(folder), "run-bert-{}", FLOAT32, "bert.json"))
    write_figure(flags.figure, *report("ALBERT", runs))


def train(folder: str, model: Mapping[str, str], name: str, *configs: str) -> Runs:
    """Trains a model with each of some configurations; returns the folders of the runs."""
    files = {"train_file": TRAIN_FILE, "predict_file": DEV_FILE}
    files = {flag: f"{folder}/data-1/{file.format('1.1')}" for flag, file in files.items()}
    runs = {config: os.path.join(folder, name.format(config)) for config in configs}
    for config, output_dir in runs.items():
        options = {**model, **files, "output_dir": output_dir, **RUN_FLAGS}
        path = "0" if config == FLOAT32 else os.path.join(ROOT, "bf16_config", config)
        run(path, "run_squad_v1.py", *(f"--{key}={value}" for key, value in options.items()))
    return runs


def run(bf16_conversion: str, *arguments: str) -> None:
    """Runs a Python command; it ends at once if its output folder already has the results."""
    environment = {**os.environ, "TF_BF16_CONVERSION": bf16_conversion}
    print(f"\n$ TF_BF16_CONVERSION={bf16_conversion} python {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)


def make_bert(folder: str) -> dict[str, str]:
    """Writes configuration and vocabulary of a BERT for the demo's data; returns its flags."""
    config, vocabulary = (f"{folder}/model-bert/{n}" for n in ("bert_config.json", "vocab.txt"))
    os.makedirs(f"{folder}/model-bert", exist_ok=True)
    write_pieces(f"{folder}/data-1/{TRAIN_FILE.format('1.1')}", vocabulary)
    write_json(config, {key: value for key, value in CONFIG.items() if key not in _OF_ALBERT})
    return {"bert_config_file": config, "vocab_file": vocabulary}


def report(model: str, runs: Runs) -> tuple[dict, dict]:
    """Prints the tables of a model's runs: mean losses of each tenth of the training, and scores
    on articles outside the training data. Returns losses by step and scores, by run."""
    curves, scores = {name: losses(folder) for name, folder in runs.items()}, {}
    for name, folder in runs.items():
        with open(os.path.join(folder, "eval_results.json"), encoding="utf-8") as file:
            scores[name] = json.load(file)
    print(f"\n{model}: mean loss of steps, and scores")
    table, last = Table(*runs, width=14), max(curves[FLOAT32])
    for rows in zip(*(means(curve, last, 10) for curve in curves.values()), strict=True):
        first, end, _ = rows[0]
        table.row(f"{first + 1} to {end}", *(f"{mean:.4f}" for *_, mean in rows))
    for key in ("exact_match", "f1"):
        table.row(key, *(f"{of_run[key]:.2f}" for of_run in scores.values()))
    return curves, scores


def losses(folder: str) -> dict[int, float]:
    """Returns the loss by step, from the curves of a run."""
    return {
        event.step: value.simple_value
        for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*")))
        for event in tf.train.summary_iterator(path)
        for value in event.summary.value
        if value.tag == "loss"
    }


def means(curve: Mapping[int, float], last: int, parts: int) -> Iterator[tuple[int, int, float]]:
    """Yields, for equal parts of a training up to the last step: the steps before and at its end,
    and the mean loss. The curve has losses by step, at least one in every part."""
    for part in range(parts):
        first, end = part * last // parts, (part + 1) * last // parts
        yield first, end, float(np.mean([curve[s] for s in curve if first < s <= end]))


def write_figure(path: str, curves: Mapping[str, dict], scores: Mapping[str, dict]) -> None:
    """Writes an SVG of the mean losses of every fiftieth of the training, with F1, by run."""
    last = max(curves[FLOAT32])
    lines = {
        name: [(end, mean) for _, end, mean in means(curve, last, 50)]
        for name, curve in curves.items()
    }
    highest = max(mean for line in lines.values() for _, mean in line)
    x_scale, y_scale = (_RIGHT - _LEFT) / last, (_BOTTOM - _TOP) / highest
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#222222">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text((_LEFT + _RIGHT) / 2, _BOTTOM + 36, "training loss by step", "middle"),
    ]
    for loss in range(int(highest) + 1):
        y = _BOTTOM - y_scale * loss
        drawn.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#dddddd"/>')
        drawn.append(_text(_LEFT - 8, y + 4, str(loss), "end"))
    for step in range(0, last + 1, max(last // 10, 1)):
        drawn.append(_text(_LEFT + x_scale * step, _BOTTOM + 18, f"{step:,}", "middle"))
    for number, ((name, line), color) in enumerate(zip(lines.items(), _COLORS, strict=False)):
        points = (f"{_LEFT + x_scale * x:.1f},{_BOTTOM - y_scale * y:.1f}" for x, y in line)
        height = _TOP + 18 * (number + 1)
        label = _text(_RIGHT - 180, height, f"{name}: F1 {scores[name]['f1']:.2f}", "start")
        line = f'points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="1.5"'
        sample = f'd="M{_RIGHT - 210} {height - 4}h24" stroke="{color}" stroke-width="3"'
        drawn += [f"<polyline {line}/>", f"<path {sample}/>{label}"]
    drawn.append(_text(_LEFT, _HEIGHT - 8, "made by python -m benchmarks.precision", "start"))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*drawn, "</svg>", ""]))


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


if __name__ == "__main__":
    main()
