"""Times answers of ALBERT-base with random weights: the first one, and later ones by length.

  make bench NAME=ask FLAGS="[--rounds 9] [--lengths 32,128,384] ..."

The first answer is that of a new process, including all imports and loading the model. It is
compared with the time of `import tensorflow` in the same process. A later answer is compared with
the time of the model's forward pass, and so are embeddings. `encode` is timed without tokenization,
on texts of all lengths. The table has medians.

Answers of `model.answer` and requests to `albert serve` are also compared with the forward pass of
ONNX Runtime on one sequence of the same length, without tokenization. These take turns. ONNX
Runtime has a thread for each core, which spins or not, and the faster of both counts. Its model
comes from `albert convert`. Its time with one thread is for information, because this project
always uses all cores.
"""

from __future__ import annotations

import argparse
import contextlib
import operator
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import sentencepiece as spm
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import BEST
from albert.checkpoints.model_folder import CONFIG, SPM_MODEL, Assets, write_assets
from albert.core import estimators
from albert.data.sequences import SEQUENCE_KEYS
from albert.inference import load_model
from albert.inference.base import ModelSession
from albert.inference.embedding import Embedder, write_json_lines, write_npz
from albert.inference.folders import ModelFolder, open_folder
from albert.inference.squad import QuestionAnswerer
from albert.modeling import EncoderConfig, read_config
from albert.prediction.model import Head, ModelOptions
from albert.tasks.squad.head import make_v1_head
from albert.training.model_fn import make_model_fn
from benchmarks.parts.harness import new_parser

if TYPE_CHECKING:
    from benchmarks.parts import peer_answers

# The bounds, as multiples.
MOST_FIRST, MOST_LATER, MOST_ENCODED = 3.0, 1.3, 1.05
QUESTION = "what is the name of the river ?"
_TEXT = "the river of this old city has a name and a long way to the sea in the south"
_WORDS = _TEXT.split()
_DESCRIPTION = {
    "task": "squad-1.1",
    "do_lower_case": True,
    "max_seq_length": 384,
    "doc_stride": 128,
    "max_query_length": 64,
    "n_best_size": 20,
    "max_answer_length": 30,
    "mask_padding_in_loss": True,
}
# The program of a new process; its arguments are the model, the question and the text.
_FIRST_ANSWER = """
import sys, time
start = time.perf_counter()
from albert import cli
import tensorflow
imported = time.perf_counter()
from albert.inference import load_model
load_model(sys.argv[1]).answer(sys.argv[2], [sys.argv[3]])
print(imported - start, time.perf_counter() - start)
"""


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded."""
    flags = parse_flags()
    tf.logging.set_verbosity(tf.logging.ERROR)
    lengths = [int(length) for length in flags.lengths.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, flags.config)
        model = load_model(folder)
        texts = {length: text_of(model.folder, length) for length in lengths}
        later = {length: later_answers(model, text, flags.rounds) for length, text in texts.items()}
        form = {"JSON": write_json_lines, "npz": write_npz}
        embedded = {name: embeddings(folder, texts[lengths[0]], form[name]) for name in form}
        encoded = encodings(model, list(texts.values()), flags.rounds)
        first = [first_answer(folder, texts[lengths[-1]]) for _ in range(flags.starts)]
        compared = peer_times(folder, model, flags)
    imports, answers = (statistics.median(column) for column in zip(*first, strict=True))
    of_first = statistics.median(answer / imported for imported, answer in first)
    print(f"{'':50}{'seconds':>10}{'times':>8}   of")
    row = "{:50}{:10.4f}{:8.2f}   {}"
    print(row.format("first answer", answers, of_first, f"import tensorflow ({imports:.2f} s)"))
    for length, (seconds, times) in later.items():
        print(row.format(f"answer, {length} tokens", seconds, times, "the forward pass"))
    for name, (seconds, times) in embedded.items():
        print(row.format(f"embeddings as {name}", seconds, times, "the forward pass"))
    print(row.format("encode, all lengths", *encoded, "the forward pass"))
    holds = of_first <= MOST_FIRST and all(times <= MOST_LATER for _, times in later.values())
    holds = holds and encoded[1] <= MOST_ENCODED
    for length, ways in compared.items():
        for name, of in ways.items():
            label = f"{length} tokens: {name}"
            print(row.format(label, of.seconds, of.times, "ONNX Runtime on all cores"))
            holds = holds and of.holds
    return 0 if holds else 1


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument(
        "--lengths", default="32,64,128,256,384", help="numbers of tokens, separated by commas"
    )
    parser.add_argument(
        "--peer_lengths", default="32,128,384", help="those to compare with ONNX Runtime"
    )
    parser.add_argument("--rounds", type=int, default=9, help="answers of each length")
    parser.add_argument("--starts", type=int, default=3, help="number of new processes")
    return parser.parse_args()


def write_model(folder: str, config_file: str) -> None:
    """Writes a model of SQuAD 1.1 with random weights, as a run would."""
    config = read_config(config_file)
    tokenizer = os.path.join(folder, "tokenizer")
    with open(tokenizer, "wb") as file:
        file.write(tokenizer_of_size(config.vocab_size))
    longest = min(_DESCRIPTION["max_seq_length"], config.max_position_embeddings)
    description = {**_DESCRIPTION, "max_seq_length": longest}
    files = {CONFIG: config_file, SPM_MODEL: tokenizer}
    write_random_weights(folder, config, make_v1_head(mask_padding_in_loss=True))
    write_assets(folder, Assets(description, files))


def write_random_weights(folder: str, config: EncoderConfig, head: Head) -> None:
    """Writes the best checkpoint of an untrained model."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = {key: tf.placeholder(tf.int32, [None, None], key) for key in SEQUENCE_KEYS}
        model_fn = make_model_fn(config, head, ModelOptions())
        model_fn(inputs, None, estimators.ModeKeys.PREDICT, None)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, os.path.join(folder, BEST), write_state=False)


def tokenizer_of_size(size: int) -> bytes:
    """Returns a SentencePiece model of some words, with as many pieces as a model needs.

    Unused pieces fill it up; the speed of tokenizing does not depend on their number.
    """
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "spm")
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter([QUESTION, _TEXT] * 4),
            model_prefix=prefix,
            vocab_size=60,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=["[CLS]", "[SEP]", "[MASK]"],
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
        )
        with open(prefix + ".model", "rb") as file:
            content = file.read()
    processor = spm.SentencePieceProcessor()
    processor.LoadFromSerializedProto(content)
    # Concatenated messages are one message; a piece is field 1, with its text and score.
    return content + b"".join(
        entry(1, entry(1, f"unused{number}".encode()) + struct.pack("<Bf", 2 << 3 | 5, -100.0))
        for number in range(processor.get_piece_size(), size)
    )


def entry(field: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer, for bytes or a message shorter than 128."""
    return bytes([field << 3 | 2, len(content)]) + content


def text_of(folder: ModelFolder, length: int) -> str:
    """Returns a text that makes one window of nearly, but at most, `length` tokens."""
    text = ""
    for number in range(length):
        longer = f"{text} {_WORDS[number % len(_WORDS)]}"
        # [CLS] question [SEP] text [SEP], and the prefix that `later_answers` adds.
        if sum(map(len, folder.tokenizer.encode([QUESTION, longer]))) + 7 > length:
            break
        text = longer
    return text.strip()


def later_answers(model: QuestionAnswerer, text: str, rounds: int) -> tuple[float, float]:
    """Returns the seconds of an answer, and their ratio to those of its forward pass."""
    timed = []
    for number in range(rounds + 1):
        with forward_pass(model._session) as in_model:
            start = time.perf_counter()
            # A new text every time, so that it is tokenized again.
            model.answer(QUESTION, [f"{number} {text}"])
            timed.append((time.perf_counter() - start, sum(in_model)))
    # The first use of a shape is slower.
    seconds, in_model = zip(*timed[1:], strict=True)
    return statistics.median(seconds), statistics.median(map(operator.truediv, seconds, in_model))


def embeddings(folder: str, text: str, write: Callable) -> tuple[float, float]:
    """Returns the seconds of the embeddings of a text, and their ratio in the same way."""
    embedder, count = Embedder(open_folder(folder), [-1, -2], pooled=False), 64
    with forward_pass(embedder._session) as in_model:
        start = time.perf_counter()
        write(os.path.join(folder, "embeddings"), embedder.embed([(text,)] * count))
        seconds = time.perf_counter() - start
    return seconds / count, seconds / sum(in_model)


def encodings(model: QuestionAnswerer, texts: Sequence[str], rounds: int) -> tuple[float, float]:
    """Returns the seconds of `encode` per text without tokenization, and their ratio in the same
    way."""
    # Eight texts of each length, in no order.
    texts = list(texts) * 8
    model.encode(texts)
    session, tokenizer = model._pooling_session._session, model.folder.tokenizer
    timed = []
    for _ in range(rounds):
        with seconds_of(session, "run_all") as in_model, seconds_of(tokenizer, "encode") as before:
            start = time.perf_counter()
            model.encode(texts, normalize=True)
            timed.append((time.perf_counter() - start - sum(before), sum(in_model)))
    seconds, in_model = zip(*timed, strict=True)
    times = statistics.median(map(operator.truediv, seconds, in_model))
    return statistics.median(seconds) / len(texts), times


def peer_times(
    folder: str, model: QuestionAnswerer, flags: argparse.Namespace
) -> dict[int, dict[str, peer_answers.Times]]:
    """Returns the times of answers and of ONNX Runtime, by length."""
    # Other benchmarks import this module, and work without ONNX Runtime.
    from benchmarks.parts import peer_answers

    lengths = [int(length) for length in flags.peer_lengths.split(",")]
    texts = {length: text_of(model.folder, length) for length in lengths}
    return peer_answers.compare(folder, model, QUESTION, texts, flags.rounds)


def forward_pass(session: ModelSession) -> contextlib.AbstractContextManager[list[float]]:
    """Yields a list that collects the seconds of every forward pass."""
    return seconds_of(session._session, "run_all")


@contextlib.contextmanager
def seconds_of(owner: object, name: str) -> Iterator[list[float]]:
    """Yields a list that collects the seconds of every call of a method."""
    seconds, method = [], getattr(owner, name)

    def timed(*args, **options):
        start = time.perf_counter()
        found = method(*args, **options)
        seconds.append(time.perf_counter() - start)
        return found

    setattr(owner, name, timed)
    yield seconds
    setattr(owner, name, method)


def first_answer(folder: str, text: str) -> tuple[float, float]:
    """Returns the seconds of `import tensorflow`, and of everything up to the first answer."""
    command = [sys.executable, "-c", _FIRST_ANSWER, folder, QUESTION, text]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    imported, answered = map(float, result.stdout.split()[-2:])
    return imported, answered


if __name__ == "__main__":
    sys.exit(main())
