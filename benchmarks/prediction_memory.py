"""Measures how the memory and time of a prediction grow with the number of questions.

  make bench NAME=prediction_memory FLAGS="[--questions 1000000]"

A tiny model with random weights answers the questions of a file, and a tenth of them, with
`--do_predict`: it reads them, makes features, and writes scores, answers and the page. Then `albert
evaluate` scores the answers again. The benchmark fails if the peak memory is more than 3 GB, or
grows by more than 2 KB per question, or if ten times as many questions take more than 5 % longer
per question.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.parts.harness import ROOT, give, new_parser, run_again

# The bounds.
MOST_GB, MOST_BYTES, MOST_TIME = 3.0, 2048.0, 1.05
_COMMANDS = ("squad", "evaluate")
_OF_PARAGRAPH = 3  # questions
_LENGTH = 64
_CONFIG = {
    **{"vocab_size": 100, "max_position_embeddings": _LENGTH, "num_hidden_layers": 1},
    **{"embedding_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1},
}


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded; or predicts once."""
    flags = parse_flags()
    if flags.version:
        measure = predict if flags.command == "squad" else evaluate
        give(measure(flags.folder, flags.version, flags.questions))
        return 0
    counts = flags.questions // 10, flags.questions
    holds = True
    titles = (*(f"MB, {n:,}" for n in counts), *(f"s, {n:,}" for n in counts), "bytes", "time")
    print(" " * 12 + "".join(f"{title:>14}" for title in titles))
    for version in ("1.1", "2.0"):
        with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
            write_model(folder, version)
            for command in _COMMANDS:
                given = f"--folder={folder}", f"--version={version}", f"--command={command}"
                (small, small_time), (large, large_time) = (
                    run_again("prediction_memory", *given, f"--questions={n}") for n in counts
                )
                growth = (large - small) / (counts[1] - counts[0])
                times = large_time / counts[1] * counts[0] / small_time
                sizes = f"{small / 1e6:>14.1f}{large / 1e6:>14.1f}{small_time:>14.1f}"
                numbers = f"{sizes}{large_time:>14.1f}{growth:>14.1f}{times:>14.3f}"
                print(f"{f'{command} {version}':<12}{numbers}", flush=True)
                holds = holds and growth <= MOST_BYTES and times <= MOST_TIME
                holds = holds and large <= MOST_GB * 1e9
    return 0 if holds else 1


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--questions", type=int, default=1_000_000)
    parser.add_argument("--folder", help="folder for the files, which are removed")
    parser.add_argument("--version", help=argparse.SUPPRESS)
    parser.add_argument("--command", choices=_COMMANDS, help=argparse.SUPPRESS)
    return parser.parse_args()


def write_model(folder: str, version: str) -> None:
    """Writes a configuration, a tokenizer and random weights."""
    import tensorflow.compat.v1 as tf

    from albert.modeling import read_config
    from albert.tasks.squad.head import V2Options, make_v1_head, make_v2_head
    from benchmarks.ask import tokenizer_of_size, write_random_weights

    tf.logging.set_verbosity(tf.logging.ERROR)
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(_CONFIG, file)
    with open(os.path.join(folder, "spm.model"), "wb") as file:
        file.write(tokenizer_of_size(_CONFIG["vocab_size"]))
    head = make_v1_head(True) if version == "1.1" else make_v2_head(V2Options())
    write_random_weights(folder, read_config(path), head)


def paragraphs_of(version: str, count: int) -> Iterator[dict]:
    """Yields paragraphs with several questions each; in 2.0, some have no answer."""
    for number in range(0, count, _OF_PARAGRAPH):
        context = f"A bridge of {number} m is in town. It is {number % 977} years old."
        qas = []
        for n in range(number, min(number + _OF_PARAGRAPH, count)):
            answers = [{"text": f"{number} m", "answer_start": 12}]
            question = {"id": f"question {n}", "question": f"How long ({n})?", "answers": answers}
            if version == "2.0":
                question["is_impossible"] = n % 3 == 2
                question["answers"] = [] if n % 3 == 2 else answers
            qas.append(question)
        yield {"qas": qas, "context": context}


def write_questions(path: str, version: str, count: int) -> None:
    """Writes a file of questions, as SQuAD 2.0 is written: with the context after them."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"version": version, "data": [{"title": "", "paragraphs": []}]})[:-4])
        for number, paragraph in enumerate(paragraphs_of(version, count)):
            file.write(", " * bool(number) + json.dumps(paragraph))
        file.write("]}]}")


def predict(folder: str, version: str, count: int) -> tuple[int, float]:
    """Returns the peak memory of a prediction in bytes, and its seconds."""
    questions = os.path.join(folder, f"{count}.json")
    write_questions(questions, version, count)
    program = os.path.join(ROOT, f"run_squad_v{version[0]}.py")
    command = [
        *(program, "--do_train=false", "--do_predict", "--device=cpu"),
        f"--albert_config_file={folder}/config.json",
        f"--spm_model_file={folder}/spm.model",
        f"--init_checkpoint={folder}/model.ckpt-best",
        f"--predict_file={questions}",
        f"--output_dir={os.path.join(folder, str(count))}",
        *(f"--max_seq_length={_LENGTH}", "--max_query_length=24", "--doc_stride=16"),
        "--predict_batch_size=64",
    ]
    return run(command, os.path.join(folder, f"{count}.log"))


def evaluate(folder: str, version: str, count: int) -> tuple[int, float]:
    """Returns the peak memory of scoring a prediction's answers in bytes, and its seconds."""
    output = os.path.join(folder, str(count))
    odds = [f"--null_odds_file={output}/null_odds.json"] * (version == "2.0")
    data = f"--data={os.path.join(folder, f'{count}.json')}"
    command = [os.path.join(ROOT, "albert"), "evaluate", output, data, *odds]
    return run(command, os.path.join(folder, f"{count}.log"))


def run(command: list[str], log: str) -> tuple[int, float]:
    """Returns the peak memory of a program in bytes, and its seconds.

    This process must be small: Linux counts the memory of the process that starts another one.
    """
    start = time.perf_counter()
    with open(log, "wb") as file:
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, *command],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, file.fileno(), n) for n in (1, 2)],
        )
        _, status, usage = os.wait4(process, 0)
    if status:
        with open(log, encoding="utf-8") as file:
            raise SystemExit(file.read())
    return usage.ru_maxrss * 1024, time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
