"""Makes masked sentence pairs for pretraining from text files."""

from __future__ import annotations

import os
import time

import tensorflow.compat.v1 as tf

from albert import tokenization
from albert.cli.pretraining_data import PretrainingDataSettings
from albert.core.errors import FlagError
from albert.core.files import check_readable
from albert.devices.host import count_cores
from albert.distributed import launcher
from albert.tasks.pretraining.blocks import DataOptions
from albert.tasks.pretraining.masking import MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.shards import ShardMaker, plan_shards
from albert.tasks.pretraining.text import matching_files


def main(settings: PretrainingDataSettings) -> None:
    """Checks the settings and writes the records.

    The processes of a launcher, or processes on hosts with a common file system, share the work.
    """
    # Each process reports the files that it makes.
    tf.logging.set_verbosity(tf.logging.INFO)
    settings.require("input_file", ("spm_model_file", "vocab_file"))
    settings = settings.with_model_defaults()
    files = matching_files(settings.input_file, "input_file")
    if settings.vocab_file:
        check_readable(settings.vocab_file, "--vocab_file")
    tokenizer = tokenization.FullTokenizer(
        settings.vocab_file, settings.do_lower_case, settings.spm_model_file
    )
    tokenizer.check()
    one_of_each_file = settings.parallel or not settings.output_file
    plan = plan_shards(files, output_files(files, settings), settings.dupe_factor, one_of_each_file)
    worker = launcher.started
    workers = settings.preprocess_workers
    if "preprocess_workers" not in settings.given:
        workers = min(workers, count_cores(worker.local_size))
    if worker.size > 1 and launcher.is_first():
        tf.logging.info("%d processes, with %d workers in this one", worker.size, workers)
        if len(plan.shards) < worker.size:
            tf.logging.warning(
                "%d output files for %d processes: some have nothing to do; pass --num_shards=%d "
                "or more",
                *(len(plan.shards), worker.size, worker.size),
            )
    started = time.perf_counter()
    counts = ShardMaker(tokenizer, data_options(settings), workers).make(plan)
    if not launcher.is_first():
        return
    tf.logging.info(
        "Wrote %d records to %d files, from %d documents (%d with only one sentence), in %.1f s",
        *(counts["records"], len(plan.shards), counts["documents"]),
        *(counts["documents_of_one_sentence"], time.perf_counter() - started),
    )
    if not counts["in_order"]:
        tf.logging.warning(
            "No record has its sentences in order, so the model cannot learn their order. Write "
            "one sentence per line, and blank lines only between documents"
        )


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


def data_options(settings: PretrainingDataSettings) -> DataOptions:
    """Returns the options that affect the records."""
    return DataOptions(
        settings.dupe_factor,
        settings.random_seed,
        PairOptions(*(getattr(settings, name) for name in PairOptions._fields)),
        MaskingOptions(*(getattr(settings, name) for name in MaskingOptions._fields)),
    )
