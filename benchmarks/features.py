"""Times SQuAD features, from the JSON to the closed record file, next to two other ways.

  make bench NAME=features FLAGS="[--data FOLDER] ..."

The others are a longest common subsequence in plain Python (`lcs.py`), on some examples, and
`transformers`' fast ALBERT tokenizer through `datasets.map` in one process. One way uses a
WordPiece vocabulary, all others a SentencePiece model. Two more run this project on a file of the
size of SQuAD, with one process and with two: its paragraphs and questions are those of the training
file and similar ones (`squad_size.py`), none of which occurs twice. Each way runs in a separate
process, whose peak memory is shown; start-up does not count. The ways take turns, so that a slow
hour of the machine affects all of them.
"""

from __future__ import annotations

import argparse
import copy
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks.parts import data
from benchmarks.parts.harness import give, new_parser, run_again
from benchmarks.parts.squad_size import write_questions

MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH = 384, 128, 64
_FILES = "train_file", "spm_model_file", "vocab_file"


def main() -> None:
    """Runs every way in a separate process and prints the table, or is such a process."""
    flags = parse_flags()
    if flags.way:
        give(WAYS[flags.way][0](flags))
        return
    with tempfile.TemporaryDirectory() as folder:
        large = os.path.join(folder, "large.json")
        write_questions(flags.train_file, large, flags.questions)
        turns = [{way: measured_way(way, large) for way in WAYS} for _ in range(flags.turns)]
    results = {way: min((turn[way] for turn in turns), key=lambda r: r["ms"]) for way in WAYS}
    ours = results["one process"]["ms"]
    print(f"{'':<22}{'ms an example':>15}{'times ours':>12}{'examples':>10}{'peak memory':>14}")
    for way, result in results.items():
        print(
            f"{way:<22}{result['ms']:>15.3f}{result['ms'] / ours:>12.2f}"
            f"{result['examples']:>10}{result['mb']:>11.0f} MB"
        )


def measured_way(way: str, large: str) -> dict:
    """Returns the measurements of a way in a new process; `large` is the file of SQuAD's size."""
    flags = f"--way={way}", f"--large_file={large}"
    return run_again("features", *flags, environment=WAYS[way][1])


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    data.add_flag(parser, *_FILES)
    parser.add_argument("--lcs_examples", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds of a turn; the fastest of all counts"
    )
    parser.add_argument(
        "--questions", type=int, default=88000, help="questions of the large file; SQuAD has 88,000"
    )
    parser.add_argument("--large_file", help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    data.find(flags, *_FILES)
    return flags


def fastest(work: Callable[[str], int], rounds: int) -> dict:
    """Times `work(folder)`, which returns the number of examples, in new folders."""
    seconds = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            examples = work(folder)
            seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"ms": 1e3 * min(seconds) / examples, "examples": examples, "mb": peak}


def ours(flags: argparse.Namespace, workers: int, model: str | None, vocab: str | None) -> dict:
    """Times this project, from the JSON file to the closed record file and its header."""
    import tensorflow.compat.v1 as tf

    from albert.tasks.squad.feature_files import FeatureOptions, SquadFeatures
    from albert.tasks.squad.questions import QuestionSource
    from albert.tokenization import FullTokenizer

    tf.logging.set_verbosity(tf.logging.ERROR)
    loaded = FullTokenizer(vocab, True, model)
    options = FeatureOptions(MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH)

    def work(folder: str) -> int:
        # A copy whose cache of words is empty.
        tokenizer = copy.copy(loaded)
        paths = [os.path.join(folder, "features")]
        source = SquadFeatures(QuestionSource(flags.train_file), paths, tokenizer, options, workers)
        return source.made().num_examples

    return fastest(work, flags.rounds)


def large(flags: argparse.Namespace, workers: int) -> dict:
    """Times this project once on a file of the size of SQuAD."""
    of_size = argparse.Namespace(**{**vars(flags), "train_file": flags.large_file, "rounds": 1})
    return ours(of_size, workers, flags.spm_model_file, None)


def lcs(flags: argparse.Namespace) -> dict:
    """Times the plain method, to a record file, on examples spread over the file."""
    import tensorflow.compat.v1 as tf

    from albert.tasks.squad.examples import read_squad_examples
    from albert.tasks.squad.feature_files import FeatureOptions
    from albert.tokenization import FullTokenizer
    from benchmarks.parts.lcs import convert

    tokenizer = FullTokenizer(None, True, flags.spm_model_file)
    examples = read_squad_examples(flags.train_file, is_training=True)
    some = examples[:: max(1, len(examples) // flags.lcs_examples)][: flags.lcs_examples]

    def work(folder: str) -> int:
        options = FeatureOptions(MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH)
        with tf.io.TFRecordWriter(os.path.join(folder, "features")) as writer:
            for example in some:
                for record in convert(example, tokenizer, options):
                    writer.write(record)
        return len(some)

    return fastest(work, flags.rounds)


def fast_tokenizer(flags: argparse.Namespace) -> dict:
    """Times `transformers` and `datasets`: windows, offsets and answer positions."""
    import datasets
    import transformers
    from transformers.utils import sentencepiece_model_pb2_new

    from albert.tasks.squad.examples import read_squad_examples

    # sentencepiece's own description of its models needs a newer protobuf than TensorFlow 2.15 has.
    sys.modules["sentencepiece.sentencepiece_model_pb2"] = sentencepiece_model_pb2_new
    datasets.disable_progress_bars()
    tokenizer = transformers.AlbertTokenizerFast(vocab_file=flags.spm_model_file)

    def convert(batch: dict) -> dict:
        encoded = tokenizer(
            batch["question"],
            batch["context"],
            truncation="only_second",
            max_length=MAX_SEQ_LENGTH,
            stride=MAX_SEQ_LENGTH - DOC_STRIDE - MAX_QUERY_LENGTH,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding="max_length",
        )
        examples = encoded.pop("overflow_to_sample_mapping")
        starts, ends = [], []
        for i, offsets in enumerate(encoded.pop("offset_mapping")):
            first = batch["start"][examples[i]]
            last = first + len(batch["answer"][examples[i]])
            tokens = [t for t, s in enumerate(encoded.sequence_ids(i)) if s == 1]
            inside = offsets[tokens[0]][0] <= first and last <= offsets[tokens[-1]][1]
            starts.append(max((t for t in tokens if offsets[t][0] <= first), default=0) * inside)
            ends.append(min((t for t in tokens if offsets[t][1] >= last), default=0) * inside)
        return {**encoded, "start_positions": starts, "end_positions": ends}

    def work(folder: str) -> int:
        examples = read_squad_examples(flags.train_file, is_training=True)
        table = {
            "question": [e.question_text for e in examples],
            "context": [e.paragraph_text for e in examples],
            "answer": [e.orig_answer_text for e in examples],
            "start": [e.start_position for e in examples],
        }
        dataset = datasets.Dataset.from_dict(table)
        dataset.map(
            convert,
            batched=True,
            remove_columns=dataset.column_names,
            cache_file_name=os.path.join(folder, "features.arrow"),
            load_from_cache_file=False,
        )
        return len(examples)

    return fastest(work, flags.rounds)


# The ways, and their variables in the environment.
WAYS = {
    "one process": (lambda flags: ours(flags, 1, flags.spm_model_file, None), {}),
    "the same, WordPiece": (lambda flags: ours(flags, 1, None, flags.vocab_file), {}),
    "all cores": (
        lambda flags: ours(flags, len(os.sched_getaffinity(0)), flags.spm_model_file, None),
        {},
    ),
    "SQuAD's size": (lambda flags: large(flags, 1), {}),
    "SQuAD's size, 2": (lambda flags: large(flags, 2), {}),
    "fast tokenizer": (fast_tokenizer, {"TOKENIZERS_PARALLELISM": "false"}),
    "the same, threads": (fast_tokenizer, {"TOKENIZERS_PARALLELISM": "true"}),
    "plain LCS": (lcs, {}),
}


if __name__ == "__main__":
    main()
