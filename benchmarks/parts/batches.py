"""Features of real data, and batches of them with different shapes.

A shape is new to a program if its batches so far had other lengths, and if they had another number
of rows once this project has removed the padding. The first use of a shape is slower.
"""

import os
import sys
from collections.abc import Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from albert.tasks.squad.feature_files import FeatureOptions, SquadFeatures
from albert.tasks.squad.questions import QuestionSource
from albert.tokenization import FullTokenizer
from benchmarks.parts.flags import Flags

# Without padding, this project rounds the rows of a batch up to a multiple of this.
_ROWS = 64


def write_batches(path: str, is_training: bool, flags: Flags) -> None:
    """Writes features, and as `order` the numbers of those in each batch: [turns, batches, size].

    Features are those of the training file, or those to predict. For prediction, batches have
    features of similar length, spread over all lengths.
    """
    count = flags.turns * flags.batches
    records = features(is_training, flags, os.path.dirname(path))
    lengths = records["input_mask"].sum(axis=1)
    chosen, new = choose(lengths, flags.batch_size, count, not is_training)
    if new < count:
        print(f"only {new} of {count} batches have new shapes: the lengths differ too little")
    # Every turn has short and long ones.
    order = np.stack([chosen[turn :: flags.turns] for turn in range(flags.turns)])
    np.savez(path, order=order, **records)


def choose(lengths: np.ndarray, size: int, count: int, is_sorted: bool) -> tuple[np.ndarray, int]:
    """Returns the features of batches, int [count, size], and how many of them have new shapes.

    `is_sorted` sorts the features by length, and spreads the batches over the result. Otherwise,
    the first batches with different shapes are returned.
    """
    numbers = np.argsort(lengths, kind="stable") if is_sorted else np.arange(len(lengths))
    batches = numbers[: len(numbers) // size * size].reshape(-1, size)
    if not len(batches):
        sys.exit(f"benchmark: error: there are only {len(numbers)} features; lower --batch_size")
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


def features(is_training: bool, flags: Flags, folder: str) -> Mapping[str, np.ndarray]:
    """Returns all features of a file, padded to its longest; shuffled for training."""
    tokenizer = FullTokenizer(None, True, flags.spm_model_file)
    questions = QuestionSource(flags.train_file if is_training else flags.predict_file)
    paths = [os.path.join(folder, name) for name in ("features", "left.npz")[: 2 - is_training]]
    source = SquadFeatures(questions, paths, tokenizer, feature_options(flags))
    with tf.Graph().as_default(), tf.Session() as session:
        split = source.prepared()._replace(trims=False)
        made = split.input_fn(split.num_records, shuffle_seed=1 if is_training else None)()
        return session.run(tf.data.make_one_shot_iterator(made).get_next())


def feature_options(flags: Flags) -> FeatureOptions:
    """Returns the options of SQuAD's features: those of the reference for 384 tokens, in
    proportion for others."""
    length = flags.max_seq_length
    return FeatureOptions(length, doc_stride=length // 3, max_query_length=length // 6)
