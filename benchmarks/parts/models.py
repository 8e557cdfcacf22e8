"""Models with random weights, and questions whose windows have a given length."""

import os
import struct
import sys

import sentencepiece as spm
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import BEST
from albert.checkpoints.model_folder import Assets, write_assets
from albert.core import estimators
from albert.inference.folders import OpenModel
from albert.modeling import EncoderConfig, read_config
from albert.prediction.model import Head, ModelOptions
from albert.records.sequences import SEQUENCE_KEYS
from albert.tasks.squad.head import make_v1_head
from albert.training.model_fn import make_model_fn
from benchmarks.parts.flags import SPECIAL_PIECES
from benchmarks.parts.harness import output_of

QUESTION = "what is the name of the river ?"
_TEXT = "the river of this old city has a name and a long way to the sea in the south"
_WORDS = _TEXT.split()
_DESCRIPTION = {
    **{"task": "squad-1.1", "do_lower_case": True, "mask_padding_in_loss": True},
    **{"max_seq_length": 384, "doc_stride": 128, "max_query_length": 64},
    **{"n_best_size": 20, "max_answer_length": 30},
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


def write_model(folder: str, config_file: str) -> None:
    """Writes a model of SQuAD 1.1 with random weights, as a run would."""
    config = read_config(config_file)
    tokenizer = write_tokenizer(os.path.join(folder, "tokenizer"), config.vocab_size)
    longest = min(_DESCRIPTION["max_seq_length"], config.max_position_embeddings)
    description = {**_DESCRIPTION, "max_seq_length": longest}
    write_random_weights(folder, config, make_v1_head(mask_padding_in_loss=True))
    files = {"albert_config_file": config_file, "spm_model_file": tokenizer}
    write_assets(folder, Assets(description, files))


def write_random_weights(folder: str, config: EncoderConfig, head: Head) -> None:
    """Writes the best checkpoint of an untrained model."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = {key: tf.placeholder(tf.int32, [None, None], key) for key in SEQUENCE_KEYS}
        model_fn = make_model_fn(config, head, ModelOptions())
        model_fn(inputs, None, estimators.ModeKeys.PREDICT, None)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, os.path.join(folder, BEST), write_state=False)


def write_tokenizer(path: str, size: int) -> str:
    """Writes a SentencePiece model of some words, with as many pieces as a model needs.

    Unused pieces fill it up; the speed of tokenizing does not depend on their number.
    """
    with open(path, "wb") as file:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter([QUESTION, _TEXT] * 4),
            model_writer=file,
            **{"vocab_size": 60, "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2},
            **{"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1},
            control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        )
    first = spm.SentencePieceProcessor(model_file=path).get_piece_size()
    with open(path, "ab") as file:
        for number in range(first, size):
            # Concatenated messages are one message; a piece is field 1, with its text and score.
            text = _entry(1, f"unused{number}".encode())
            file.write(_entry(1, text + struct.pack("<Bf", 2 << 3 | 5, -100.0)))
    return path


def write_vocabulary(path: str, size: int) -> None:
    """Writes a WordPiece vocabulary with as many pieces as a model needs, nearly all unused."""
    unused = (f"[unused{number}]" for number in range(size - len(SPECIAL_PIECES)))
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{piece}\n" for piece in (*SPECIAL_PIECES, *unused))


def _entry(field: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer, for bytes or a message shorter than 128."""
    return bytes([field << 3 | 2, len(content)]) + content


def text_of(folder: OpenModel, length: int) -> str:
    """Returns a text that makes one window of nearly, but at most, `length` tokens."""
    text = ""
    for number in range(length):
        longer = f"{text} {_WORDS[number % len(_WORDS)]}"
        # [CLS] question [SEP] text [SEP], and a prefix that makes texts different.
        if sum(map(len, folder.tokenizer.encode([QUESTION, longer]))) + 7 > length:
            break
        text = longer
    return text.strip()


def first_answer(folder: str, text: str) -> tuple[float, float]:
    """Returns a new process's seconds of `import tensorflow`, and up to its first answer."""
    output = output_of([sys.executable, "-c", _FIRST_ANSWER, folder, QUESTION, text])
    imported, answered = map(float, output.split()[-2:])
    return imported, answered
