r"""Makes masked sentence pairs of text files, for pretraining.

  albert pretraining-data --input_file='text/*.txt' --output_file=pretrain.tfrecord \
    --spm_model_file=albert_base_v2/30k-clean.model --dupe_factor=10

A line of a text file is a sentence; a blank line, or the end of a file, ends a document. The text
is read as it is worked on, by any number of worker processes, and the same records come out. The
same command makes only those output files that are missing or made from something else.
"""

from __future__ import annotations

import os

from absl import flags

from albert.cli import command_line
from albert.cli.commands import Work
from albert.settings.flags import LONGEST_SEQUENCE, WITHOUT_USE

# Defaults of --model_type=bert, as Google's BERT has them.
OF_BERT = {
    "random_next_sentence": True,
    "do_whole_word_mask": False,
    "ngram": 1,
    "max_seq_length": 128,
    "dupe_factor": 10,
}
# Two tokens of text and three special ones.
_LEAST_LENGTH = 5

WORK = Work("albert.commands.pretraining_data", resumes=True)


def define() -> None:
    """Defines the reference's flags, and how the work is shared out."""
    _define_files()
    _define_sequences()
    _define_masks()


def _define_files() -> None:
    flags.DEFINE_string(
        "input_file",
        None,
        "Text files, a sentence a line: names or globs, with commas. Required.",
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
    flags.DEFINE_string("spm_model_file", None, "SentencePiece model. Required, or --vocab_file.")
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
        + ", ".join(f"--{name}={str(value).lower()}" for name, value in OF_BERT.items())
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
        "Part of the tokens to mask; 0 for masks that `albert pretrain` draws with "
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
        "`albert pretrain` then needs twice --max_predictions_per_seq.",
    )


def parse(argv: list[str]) -> None:
    """Parses the flags."""
    define()
    command_line.parse(argv, __doc__)
