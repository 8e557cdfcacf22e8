r"""Makes masked sentence pairs of text files, for pretraining.

  albert pretraining-data --input_file='text/*.txt' --output_file=pretrain.tfrecord \
    --spm_model_file=albert_base_v2/30k-clean.model --dupe_factor=10

A line of a text file is a sentence; a blank line, or the end of a file, ends a document. The text
is read as it is worked on, by any number of worker processes, and the same records come out. The
same command makes only those output files that are missing or made from something else.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import LONGEST_SEQUENCE, WITHOUT_USE, Settings, setting

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

ENTRY_POINT = EntryPoint("albert.commands.pretraining_data", resumes=True)


class PretrainingDataSettings(Settings):
    """The reference's flags, and how the work is shared out."""

    input_file: str = setting(
        "", "Text files, a sentence a line: names or globs, with commas. Required."
    )
    output_file: str | None = setting(
        None,
        "Names of the files of records, with commas between. Default: a file beside each input "
        "file, with .tfrecord added to its name.",
    )
    num_shards: int = setting(
        1,
        "Number of files NAME-00000-of-00008, ... to make of --output_file=NAME. Files that "
        "are ready are not made again by a run that was stopped.",
        lower=1,
        upper=99_999,
    )
    spm_model_file: str | None = setting(None, "SentencePiece model. Required, or --vocab_file.")
    vocab_file: str | None = setting(None, "WordPiece vocabulary; not needed with a model.")
    do_lower_case: bool = setting(True, "Lower-case the text; true except for cased models.")
    random_seed: int = setting(12345, "Of everything that is drawn.", lower=0)
    preprocess_workers: int = setting(
        len(os.sched_getaffinity(0)),
        "Processes; the files are the same for any number. Default: the cores.",
        lower=1,
    )
    parallel: bool = setting(False, "Make the n-th output file of the n-th input file.")
    input_file_mode: str = setting("r", "Of the reference; ignored.", WITHOUT_USE)
    model_type: str = setting(
        "albert",
        "What the records are for. bert means other defaults: "
        + ", ".join(f"--{name}={str(value).lower()}" for name, value in OF_BERT.items())
        + ".",
        choices=("albert", "bert"),
    )
    max_seq_length: int = setting(
        512, "Tokens of a sequence.", lower=_LEAST_LENGTH, upper=LONGEST_SEQUENCE
    )
    dupe_factor: int = setting(40, "Times to go through the text, with other masks.", lower=1)
    short_seq_prob: float = setting(
        0.1,
        "Part of the documents that is made into sequences of a random shorter length.",
        lower=0.0,
        upper=1.0,
    )
    random_next_sentence: bool = setting(
        False, "Pair sentences with those of other documents, instead of changing their order."
    )
    masked_lm_prob: float = setting(
        0.15,
        "Part of the tokens to mask; 0 for masks that `albert pretrain` draws with "
        "--masked_lm_budget.",
        lower=0.0,
        upper=1.0,
    )
    max_predictions_per_seq: int = setting(
        20, "Tokens of a sequence to mask at most.", lower=1, upper=LONGEST_SEQUENCE
    )
    do_whole_word_mask: bool = setting(True, "Mask all tokens of a word or none.")
    ngram: int = setting(
        3, "Longest run of words to mask together.", lower=1, upper=LONGEST_SEQUENCE
    )
    favor_shorter_ngram: bool = setting(True, "Draw shorter runs more often.")
    do_permutation: bool = setting(
        False,
        "Change places of as many other tokens, which are to be predicted as well: "
        "`albert pretrain` then needs twice --max_predictions_per_seq.",
    )

    def with_model_defaults(self) -> PretrainingDataSettings:
        """Returns the settings with the defaults of the model's type; what is given stays."""
        changed = OF_BERT if self.model_type == "bert" else {}
        return self.replaced(**{n: v for n, v in changed.items() if n not in self.given})


def define() -> Callable[[], PretrainingDataSettings]:
    """Defines the flags; returns what makes settings of them once they are parsed."""
    PretrainingDataSettings.define_flags()
    return PretrainingDataSettings.from_flags


def parse(argv: list[str]) -> PretrainingDataSettings:
    """Returns the settings of a command line."""
    command_line.parse(argv, __doc__, PretrainingDataSettings)
    return PretrainingDataSettings.from_flags()
