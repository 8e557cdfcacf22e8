"""Features of real data, and batches of them with different shapes.

A shape is new to a program if its batches so far had other lengths, and if they had another number
of rows once this project has removed the padding. The first use of a shape is slower.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Mapping

import numpy as np

from albert.tasks.squad.feature_files import FeatureOptions

MRPC_LENGTH = 128
# Without padding, this project rounds the rows of a batch up to a multiple of this.
_ROWS = 64


def write_batches(path: str, data: str, is_sorted: bool, flags: argparse.Namespace) -> None:
    """Writes features, and as `order` the numbers of those in each batch: [turns, batches, size].

    Args:
      path: file to write, of NumPy.
      data: "train", "dev" (of SQuAD 1.1) or "mrpc".
      is_sorted: whether batches have features of similar length, spread over all lengths.
      flags: those of a benchmark, see `turns.add_flags`, with a batch size.
    """
    count = flags.turns * flags.batches
    records = features(data, flags, os.path.dirname(path))
    lengths = records["input_mask"].sum(axis=1)
    chosen, new = choose(lengths, flags.batch_size, count, is_sorted)
    if new < count:
        print(f"only {new} of {count} batches have new shapes: the lengths differ too little")
    # Every turn has short and long ones.
    order = np.stack([chosen[turn :: flags.turns] for turn in range(flags.turns)])
    np.savez(path, order=order, **records)


def choose(lengths: np.ndarray, size: int, count: int, is_sorted: bool) -> tuple[np.ndarray, int]:
    """Returns the features of batches, int [count, size], and how many of them have new shapes.

    Args:
      lengths: of the features.
      size: features in a batch.
      count: number of batches.
      is_sorted: whether to sort the features by length, and to spread the batches over the result.
        Otherwise the first batches with different shapes are returned.
    """
    places = np.argsort(lengths, kind="stable") if is_sorted else np.arange(len(lengths))
    batches = places[: len(places) // size * size].reshape(-1, size)
    if not len(batches):
        sys.exit(f"benchmark: error: there are only {len(places)} features; lower --batch_size")
    new, others, longest, rows = [], [], set(), set()
    for batch in batches:
        shape = lengths[batch].max(), lengths[batch].sum() // _ROWS
        is_new = shape[0] not in longest and shape[1] not in rows
        (new if is_new else others).append(batch)
        longest.add(shape[0])
        rows.add(shape[1])
    if len(new) < count:
        return np.resize([*new, *others], [count, size]), len(new)
    spread = np.linspace(0, len(new) - 1, count).round().astype(int)
    return np.stack([new[n] for n in (spread if is_sorted else range(count))]), count


def features(data: str, flags: argparse.Namespace, folder: str) -> Mapping[str, np.ndarray]:
    """Returns all features of a data set, padded to its longest; shuffled for training."""
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    with tf.Graph().as_default(), tf.Session() as session:
        part = source(data, flags, folder).prepared()._replace(trims=False)
        made = part.input_fn(part.num_records, shuffle_seed=None if data == "dev" else 1)()
        return session.run(tf.data.make_one_shot_iterator(made).get_next())


def feature_options(flags: argparse.Namespace) -> FeatureOptions:
    """Returns the options of SQuAD's features: those of the reference for 384 tokens, in
    proportion for others."""
    length = flags.max_seq_length
    return FeatureOptions(length, doc_stride=length // 3, max_query_length=length // 6)


def source(data: str, flags: argparse.Namespace, folder: str):
    """Returns the features of a data set, made as by the programs."""
    from albert.data.cached_file import CachedFile
    from albert.tasks.classification.features import ExampleFeatures
    from albert.tasks.classification.records import feature_spec
    from albert.tasks.glue.features import FeatureMaker
    from albert.tasks.glue.tasks import PROCESSORS
    from albert.tasks.squad.feature_files import SquadFeatures
    from albert.tasks.squad.questions import QuestionSource
    from albert.tokenization import FullTokenizer

    tokenizer = FullTokenizer(None, True, flags.spm_model_file)
    path = os.path.join(folder, f"{data}.tf_record")
    if data == "mrpc":
        processor = PROCESSORS["mrpc"](use_spm=True, do_lower_case=True)
        records = FeatureMaker(tokenizer, processor.get_labels(), MRPC_LENGTH).records
        cached, spec = CachedFile(path, {}), feature_spec([MRPC_LENGTH])
        examples = functools.partial(processor.read_examples, flags.mrpc_file, "train")
        return ExampleFeatures("train", cached, spec, examples, records, workers=1)
    options = feature_options(flags)
    if data == "train":
        return SquadFeatures(QuestionSource(flags.train_file), [path], tokenizer, options)
    left = os.path.join(folder, f"{data}_left.npz")
    return SquadFeatures(QuestionSource(flags.predict_file), [path, left], tokenizer, options)
