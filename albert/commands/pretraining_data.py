"""Makes masked sentence pairs of text files, for pretraining."""

from __future__ import annotations

import os
import time

import tensorflow.compat.v1 as tf

from albert import tokenization
from albert.cli.pretraining_data import OF_BERT
from albert.core.errors import FlagError
from albert.core.files import check_readable
from albert.settings.flags import FLAGS, Settings
from albert.tasks.pretraining.blocks import DataOptions
from albert.tasks.pretraining.masking import MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.shards import ShardMaker, plan_shards
from albert.tasks.pretraining.text import matching_files


def main(asked: None) -> None:
    """Runs the whole job: flags, plan, files."""
    del asked
    Settings().require("input_file", ("spm_model_file", "vocab_file"))
    if FLAGS.model_type == "bert":
        for name, value in OF_BERT.items():
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
