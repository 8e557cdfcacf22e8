r"""Makes masked sentence pairs of text files, for pretraining.

  python create_pretraining_data.py --input_file='text/*.txt' --output_file=pretrain.tfrecord \
    --spm_model_file=albert_base_v2/30k-clean.model --dupe_factor=10

A line of a text file is a sentence; a blank line, or the end of a file, ends a document. The text
is read as it is worked on, by any number of worker processes, and the same records come out. The
same command makes only those output files that are missing or made from something else.
"""

from __future__ import annotations

import os
import time

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

# isort: split
import tensorflow.compat.v1 as tf
from absl import flags

from albert import tokenization
from albert.cli import app
from albert.core import signals
from albert.core.errors import FlagError
from albert.core.files import check_readable
from albert.settings.flags import FLAGS, LONGEST_SEQUENCE, WITHOUT_USE, Settings
from albert.tasks.pretraining.blocks import DataOptions
from albert.tasks.pretraining.masking import MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.shards import ShardMaker, plan_shards
from albert.tasks.pretraining.text import matching_files

# Defaults of --model_type=bert, as Google's BERT has them.
_OF_BERT = {
    "random_next_sentence": True,
    "do_whole_word_mask": False,
    "ngram": 1,
    "max_seq_length": 128,
    "dupe_factor": 10,
}
# Two tokens of text and three special ones.
_LEAST_LENGTH = 5


def define_flags() -> None:
    """Defines the reference's flags, and how the work is shared out."""
    _define_files()
    _define_sequences()
    _define_masks()


def _define_files() -> None:
    flags.DEFINE_string(
        "input_file", None, "Text files, a sentence a line: names or globs, with commas between."
    )
    flags.DEFINE_string(
        "output_file",
        None,
        "Names of the files of records, with commas between. Default: a file beside each input "
        "file, with .tfrecord added to its name.",
    )
    flags.DEFINE_integer(
        "num_shards",
        1,
        "Number of files NAME-00000-of-00008, ... to make of --output_file=NAME. Files that "
        "are ready are not made again by a run that was stopped.",
        lower_bound=1,
        upper_bound=99_999,
    )
    flags.DEFINE_string("spm_model_file", None, "SentencePiece model.")
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary; not needed with a model.")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text; true but for cased models.")
    flags.DEFINE_integer("random_seed", 12345, "Of everything that is drawn.", lower_bound=0)
    flags.DEFINE_integer(
        "preprocess_workers",
        len(os.sched_getaffinity(0)),
        "Processes; the files are the same for any number. Default: the cores.",
        lower_bound=1,
    )
    flags.DEFINE_bool("parallel", False, "Make the n-th output file of the n-th input file.")
    flags.DEFINE_string(
        "input_file_mode", "r", "Of the reference; ignored.", module_name=WITHOUT_USE
    )


def _define_sequences() -> None:
    flags.DEFINE_enum(
        "model_type",
        "albert",
        ["albert", "bert"],
        "What the records are for. bert means other defaults: "
        + ", ".join(f"--{name}={str(value).lower()}" for name, value in _OF_BERT.items())
        + ".",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        512,
        "Tokens of a sequence.",
        lower_bound=_LEAST_LENGTH,
        upper_bound=LONGEST_SEQUENCE,
    )
    flags.DEFINE_integer(
        "dupe_factor", 40, "Times to go through the text, with other masks.", lower_bound=1
    )
    flags.DEFINE_float(
        "short_seq_prob",
        0.1,
        "Part of the documents that is made into sequences of a random shorter length.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_bool(
        "random_next_sentence",
        False,
        "Pair sentences with those of other documents, instead of changing their order.",
    )


def _define_masks() -> None:
    flags.DEFINE_float(
        "masked_lm_prob",
        0.15,
        "Part of the tokens to mask; 0 for masks that run_pretraining.py draws with "
        "--masked_lm_budget.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Tokens of a sequence to mask at most.",
        lower_bound=1,
        upper_bound=LONGEST_SEQUENCE,
    )
    flags.DEFINE_bool("do_whole_word_mask", True, "Mask all tokens of a word or none.")
    flags.DEFINE_integer(
        "ngram",
        3,
        "Longest run of words to mask together.",
        lower_bound=1,
        upper_bound=LONGEST_SEQUENCE,
    )
    flags.DEFINE_bool("favor_shorter_ngram", True, "Draw shorter runs more often.")
    flags.DEFINE_bool(
        "do_permutation",
        False,
        "Change places of as many other tokens, which are to be predicted as well: "
        "run_pretraining.py then needs twice --max_predictions_per_seq.",
    )


define_flags()


def main(argv: list[str]) -> None:
    """Runs the whole job: flags, plan, files."""
    del argv
    # Files that are complete stay.
    signals.install(resumes=True)
    Settings().require("input_file", ("spm_model_file", "vocab_file"))
    if FLAGS.model_type == "bert":
        for name, value in _OF_BERT.items():
            # A value that is given stays.
            FLAGS.set_default(name, value)
    files = matching_files(FLAGS.input_file, "input_file")
    if FLAGS.vocab_file:
        check_readable(FLAGS.vocab_file, "--vocab_file")
    tokenizer = tokenization.FullTokenizer(
        FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.spm_model_file
    )
    tokenizer.check()
    one_of_each_file = FLAGS.parallel or not FLAGS.output_file
    plan = plan_shards(files, output_files(files), FLAGS.dupe_factor, one_of_each_file)
    started = time.perf_counter()
    counts = ShardMaker(tokenizer, data_options(), FLAGS.preprocess_workers).make(plan)
    tf.logging.info(
        "%d records in %d files of %d documents, %d of them of one sentence, %.1f s",
        counts["records"],
        len(plan.shards),
        counts["documents"],
        counts["documents_of_one_sentence"],
        time.perf_counter() - started,
    )
    if not counts["in_order"]:
        tf.logging.warning(
            "no record has its sentences in order, so that nothing can be learned of their order: "
            "a line should be a sentence, and a blank line stand between documents only"
        )


def output_files(input_files: list[str]) -> list[str]:
    """Returns the names of the files to make.

    Raises:
      FlagError: the flags do not go together.
    """
    names = [name for name in (FLAGS.output_file or "").split(",") if name]
    if not names:
        names = [f"{name}.tfrecord" for name in input_files]
    elif FLAGS.parallel and len(names) != len(input_files):
        raise FlagError(
            f"--parallel needs as many output files as input files, not {len(names)} and "
            f"{len(input_files)}"
        )
    if FLAGS.num_shards > 1:
        if FLAGS.parallel or not FLAGS.output_file:
            raise FlagError(
                "--num_shards shares all text out to the files of one --output_file; without it, "
                "or with --parallel, each input file has its own"
            )
        if len(names) != 1:
            raise FlagError(f"--num_shards needs one --output_file, not {len(names)}")
        count = FLAGS.num_shards
        names = [f"{names[0]}-{k:05d}-of-{count:05d}" for k in range(count)]
    by_path = {os.path.abspath(name): name for name in names}
    if len(by_path) < len(names):
        raise FlagError("--output_file names a file twice")
    for path, name in by_path.items():
        if header := by_path.get(f"{path}.json"):
            raise FlagError(f"--output_file: {header} is the header of {name}; give another name")
    return names


def data_options() -> DataOptions:
    """Returns the flags that shape records."""
    return DataOptions(
        FLAGS.dupe_factor,
        FLAGS.random_seed,
        PairOptions(FLAGS.max_seq_length, FLAGS.short_seq_prob, FLAGS.random_next_sentence),
        MaskingOptions(
            FLAGS.max_predictions_per_seq,
            FLAGS.masked_lm_prob,
            FLAGS.ngram,
            FLAGS.favor_shorter_ngram,
            FLAGS.do_whole_word_mask,
            FLAGS.do_permutation,
        ),
    )


if __name__ == "__main__":
    app.run(main)
