r"""Makes masked sentence pairs for pretraining from text files.

  albert pretraining-data --input_file='text/*.txt' --output_file=pretrain.tfrecord \
    --model=albert_base_v2 --dupe_factor=10

Each line of a text file is a sentence. A blank line, or the end of the file, ends a document. The
text is streamed, so it may be larger than memory. The records do not depend on the number of worker
processes. If you run the same command again, it makes only the output files that are missing or
that were made from different input. Several processes, also on several hosts, share the output
files: each makes a part, such as --shard=2/8, or the one of its rank under mpirun or srun.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

from albert.core.errors import FlagError
from albert.core.processes import default_processes
from albert.distributed import launcher
from albert.settings.fields import IGNORED, LONGEST_SEQUENCE, OWN, redefined, setting
from albert.settings.text_settings import NormalizationSettings, TextSettings

RESUMES = True

# Two tokens of text and three special ones.
_LEAST_LENGTH = 5


class PretrainingDataSettings(NormalizationSettings):
    """The reference's flags, and flags that distribute the work."""

    input_file: str = setting(
        "", "Text files with one sentence per line: names or globs, separated by commas. Required."
    )
    output_file: str | None = setting(
        None,
        "Names of the record files to write, separated by commas. Default: for each input file, "
        "its name followed by .tfrecord.",
    )
    num_shards: int = setting(
        1,
        "Number of shards to write, NAME-00000-of-00008 and so on for --output_file=NAME. When a "
        "stopped run is resumed, it keeps the shards that are complete.",
        lower=1,
        upper=99_999,
    )
    shard: str = setting(
        "",
        "Part of the output files that this process makes, such as 2/8 for the second of eight "
        "parts. Default: that of its rank under mpirun or srun, otherwise all.",
    )
    model: str = redefined(TextSettings, "model", "", theme=OWN)
    spm_model_file: str | None = redefined(TextSettings, "spm_model_file", None, theme=OWN)
    vocab_file: str | None = redefined(TextSettings, "vocab_file", None, theme=OWN)
    do_lower_case: bool = redefined(NormalizationSettings, "do_lower_case", True, theme=OWN)
    random_seed: int = setting(
        12345, "Seed for masks, sequence lengths and sentence pairs.", lower=0
    )
    preprocess_workers: int = setting(
        default_processes(),
        "Number of worker processes; does not affect the records. Default: the number of cores, "
        "or this process's share of them under mpirun or srun; 1 on macOS.",
        lower=1,
    )
    parallel: bool = setting(False, "Make the n-th output file from the n-th input file.")
    input_file_mode: str = setting("r", "A flag of the reference; ignored.", IGNORED)
    max_seq_length: int = setting(
        512, "Length of a sequence, in tokens.", lower=_LEAST_LENGTH, upper=LONGEST_SEQUENCE
    )
    dupe_factor: int = setting(
        40, "Number of passes over the text, each with different masks.", lower=1
    )
    short_seq_prob: float = setting(
        0.1,
        "Fraction of the documents whose sequences get a random shorter length.",
        lower=0.0,
        upper=1.0,
    )
    random_next_sentence: bool = setting(
        False,
        "Make negative examples from sentences of two documents, as BERT does, instead of swapping "
        "two segments of one document.",
    )
    masked_lm_prob: float = setting(
        0.15,
        "Fraction of the tokens to mask. Set it to 0 if `albert pretrain` draws the masks, with "
        "--masked_lm_budget.",
        lower=0.0,
        upper=1.0,
    )
    max_predictions_per_seq: int = setting(
        20, "Greatest number of tokens to mask in a sequence.", lower=1, upper=LONGEST_SEQUENCE
    )
    do_whole_word_mask: bool = setting(True, "Mask either all tokens of a word or none.")
    ngram: int = setting(
        3, "Longest n-gram to mask as a whole, in words.", lower=1, upper=LONGEST_SEQUENCE
    )
    favor_shorter_ngram: bool = setting(True, "Draw shorter n-grams more often than longer ones.")
    do_permutation: bool = setting(
        False,
        "Also shuffle as many tokens as are masked; the model must predict them, too. Then pass "
        "twice this --max_predictions_per_seq to `albert pretrain`.",
    )


SETTINGS = PretrainingDataSettings


def define() -> Callable[[], PretrainingDataSettings]:
    """Defines the flags; returns a function that makes settings from the parsed flags."""
    PretrainingDataSettings.define_flags()
    return PretrainingDataSettings.from_flags


def main(settings: PretrainingDataSettings) -> None:
    """Checks the settings, and writes the records of this process."""
    part, parts = part_of(settings)
    import tensorflow.compat.v1 as tf

    from albert.checkpoints.model_flags import with_model
    from albert.devices.host import count_cores
    from albert.tasks.pretraining.masking import MaskingOptions
    from albert.tasks.pretraining.pairs import PairOptions
    from albert.tasks.pretraining.shards import DataOptions, make_shards, plan_shards
    from albert.tasks.pretraining.text import matching_files
    from albert.tokenization import FullTokenizer

    def options_of(kind: Any) -> Any:
        return kind(*(getattr(settings, name) for name in kind._fields))

    # Each process reports the files that it makes.
    tf.logging.set_verbosity(tf.logging.INFO)
    settings = with_model(settings)
    settings.require("input_file", ("spm_model_file", "vocab_file"))
    files = matching_files(settings.input_file, "input_file")
    tokenizer = FullTokenizer.of(vars(settings), vars(settings))
    one_of_each_file = settings.parallel or not settings.output_file
    plan = plan_shards(files, output_files(files, settings), settings.dupe_factor, one_of_each_file)
    workers = settings.preprocess_workers
    if "preprocess_workers" not in settings.given:
        workers = min(workers, count_cores(launcher.started.local_size))
    kinds = options_of(PairOptions), options_of(MaskingOptions)
    options = DataOptions(settings.dupe_factor, settings.random_seed, *kinds)
    started = time.perf_counter()
    counts = make_shards(plan, tokenizer, options, workers, (part, parts))
    tf.logging.info(
        "%s%d records from %d documents (%d with only one sentence), in %.1f s",
        f"Part {part + 1} of {parts}: " if parts > 1 else "",
        *(counts["records"], counts["documents"]),
        *(counts["documents_of_one_sentence"], time.perf_counter() - started),
    )
    if counts["records"] and not counts["in_order"]:
        tf.logging.warning(
            "No record has its sentences in order, so the model cannot learn their order. Write "
            "one sentence per line, and blank lines only between documents"
        )


def part_of(settings: PretrainingDataSettings) -> tuple[int, int]:
    """Returns the number of the part to make, from 0, and the number of parts."""
    if not settings.shard:
        return launcher.started.rank, launcher.started.size
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", settings.shard)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise FlagError(f"--shard={settings.shard} is not a part such as 2/8")
    return int(match[1]) - 1, int(match[2])


def output_files(input_files: list[str], settings: PretrainingDataSettings) -> list[str]:
    """Returns the files to write; raises a `FlagError` if the flags contradict each other."""
    names = [name for name in (settings.output_file or "").split(",") if name]
    if not names:
        names = [f"{name}.tfrecord" for name in input_files]
    elif settings.parallel and len(names) != len(input_files):
        raise FlagError(
            f"--parallel needs as many output files as input files, not {len(names)} and "
            f"{len(input_files)}"
        )
    if settings.num_shards > 1:
        if settings.parallel or not settings.output_file:
            raise FlagError(
                "--num_shards needs --output_file, and cannot be used with --parallel, which makes "
                "one output file for each input file"
            )
        if len(names) != 1:
            raise FlagError(f"--num_shards needs one --output_file, not {len(names)}")
        count = settings.num_shards
        names = [f"{names[0]}-{k:05d}-of-{count:05d}" for k in range(count)]
    by_path = {os.path.abspath(name): name for name in names}
    if len(by_path) < len(names):
        raise FlagError("--output_file names a file twice")
    for path, name in by_path.items():
        if header := by_path.get(f"{path}.json"):
            raise FlagError(f"--output_file: {header} is the header of {name}; use another name")
    return names
