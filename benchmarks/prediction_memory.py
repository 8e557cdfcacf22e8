"""Measures how the memory and time of a prediction grow with the number of questions.

A tiny model with random weights answers --questions in a file, and a tenth of them, with
`--do_predict`: it reads them, makes features, and writes scores, answers and the page. Then `albert
evaluate` scores the answers again. The benchmark fails if the peak memory is more than 3 GB, or
grows by more than 2 KB per question, or if ten times as many questions take more than 5 % longer
per question.
"""

import json
import os
import sys
import tempfile

from albert.checkpoints.checkpoint_files import BEST
from albert.core import files
from albert.modeling import read_config
from albert.tasks.squad.head import V2Options, make_v1_head, make_v2_head
from benchmarks.parts.flags import parse
from benchmarks.parts.harness import ROOT, Table, Timed, timed
from benchmarks.parts.models import write_random_weights, write_tokenizer

# The bounds.
_MOST_GB, _MOST_BYTES, _MOST_TIME = 3.0, 2048.0, 1.05
_OF_PARAGRAPH = 3  # questions
_LENGTH = 64
_CONFIG = {
    **{"vocab_size": 100, "max_position_embeddings": _LENGTH, "num_hidden_layers": 1},
    **{"embedding_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1},
}


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded."""
    flags, holds = parse(__doc__, questions=1_000_000), True
    counts = flags.questions // 10, flags.questions
    titles = (*(f"MB, {n:,}" for n in counts), *(f"s, {n:,}" for n in counts), "bytes", "time")
    table = Table(*titles, name_width=14)
    for version in ("1.1", "2.0"):
        with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
            write_model(folder, version)
            for count in counts:
                write_questions(f"{folder}/{count}.json", version, count)
            for name, measure in (("squad", predict), ("evaluate", evaluate)):
                small, large = (measure(folder, version, count) for count in counts)
                growth = (large.memory - small.memory) / (counts[1] - counts[0])
                times = large.seconds / counts[1] * counts[0] / small.seconds
                sizes = (small.memory / 1e6, large.memory / 1e6, small.seconds, large.seconds)
                row = *(f"{n:.1f}" for n in (*sizes, growth)), f"{times:.3f}"
                table.row(f"{name} {version}", *row)
                holds = holds and growth <= _MOST_BYTES and times <= _MOST_TIME
                holds = holds and large.memory <= _MOST_GB * 1e9
    return 0 if holds else 1


def write_model(folder: str, version: str) -> None:
    """Writes a configuration, a tokenizer and random weights."""
    path = os.path.join(folder, "config.json")
    files.write_json(path, _CONFIG)
    write_tokenizer(f"{folder}/spm.model", _CONFIG["vocab_size"])
    head = make_v1_head(True) if version == "1.1" else make_v2_head(V2Options())
    write_random_weights(folder, read_config(path), head)


def write_questions(path: str, version: str, count: int) -> None:
    """Writes a file of questions, as SQuAD 2.0 is written: with the context after them.

    Paragraphs have several questions each; in 2.0, some have no answer.
    """
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"version": version, "data": [{"title": "", "paragraphs": []}]})[:-4])
        for first in range(0, count, _OF_PARAGRAPH):
            context = f"A bridge of {first} m is in town. It is {first % 977} years old."
            qas = []
            for n in range(first, min(first + _OF_PARAGRAPH, count)):
                is_impossible = version == "2.0" and n % 3 == 2
                answers = [] if is_impossible else [{"text": f"{first} m", "answer_start": 12}]
                question = {"id": f"question {n}", "question": f"How long ({n})?"}
                qas.append({**question, "answers": answers, "is_impossible": is_impossible})
            file.write(", " * bool(first) + json.dumps({"qas": qas, "context": context}))
        file.write("]}]}")


def predict(folder: str, version: str, count: int) -> Timed:
    """Measures a prediction."""
    command = [sys.executable, os.path.join(ROOT, f"run_squad_v{version[0]}.py"), "--device=cpu"]
    command += ["--do_train=false", "--do_predict", f"--predict_file={folder}/{count}.json"]
    command += [f"--albert_config_file={folder}/config.json", f"--output_dir={folder}/{count}"]
    command += [f"--spm_model_file={folder}/spm.model", f"--init_checkpoint={folder}/{BEST}"]
    command += [f"--max_seq_length={_LENGTH}", "--max_query_length=24", "--doc_stride=16"]
    return timed([*command, "--predict_batch_size=64"], f"{folder}/{count}.log")


def evaluate(folder: str, version: str, count: int) -> Timed:
    """Measures the scoring of a prediction's answers."""
    output = f"{folder}/{count}"
    odds = [f"--null_odds_file={output}/null_odds.json"] * (version == "2.0")
    command = files.command("evaluate", output, f"--data={folder}/{count}.json", *odds)
    return timed(command, f"{folder}/{count}.log")


if __name__ == "__main__":
    sys.exit(main())
