"""What the flags of a SQuAD run come to."""

from __future__ import annotations

import types

import tensorflow.compat.v1 as tf

from runtime.data.cached_file import Snapshot
from runtime.data.records import shuffled_numbers
from runtime.data.tf_example import serialize
from squad import run
from squad.feature_files import FeatureFile

LENGTH, COUNT, BATCH = 16, 50, 8


def test_the_seed_orders_the_training_data(tmp_path, monkeypatch):
    path = str(tmp_path / "features")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(COUNT):
            writer.write(serialize(feature(number)))
    file = FeatureFile(path, COUNT, COUNT, Snapshot.of([path]))
    a_run = object.__new__(run.SquadRun)
    a_run._is_v2 = False
    for seed in (1, 77):
        flags = {"seed": seed, "max_seq_length": LENGTH}
        flags |= {"trim_batches": True, "mask_padding_in_loss": True}
        monkeypatch.setattr(run, "FLAGS", types.SimpleNamespace(**flags))
        input_fn = a_run._input_fn(file, BATCH, is_training=True, start_batch=3)
        with tf.Graph().as_default(), tf.Session() as session:
            batch = tf.data.make_one_shot_iterator(input_fn({})).get_next()
            ids = session.run(batch["unique_ids"])
        assert ids.tolist() == shuffled_numbers(COUNT, BATCH, seed, 3).tolist()


def feature(number: int) -> dict[str, list[int]]:
    """One whose id is its number."""
    sequences = ("input_ids", "input_mask", "segment_ids", "p_mask")
    others = ("start_positions", "end_positions", "is_impossible")
    return {
        "unique_ids": [number],
        **dict.fromkeys(sequences, [1] * LENGTH),
        **dict.fromkeys(others, [0]),
    }
