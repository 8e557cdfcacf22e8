"""The data of a run, before it begins."""

import logging
import types

import pytest
import tensorflow.compat.v1 as tf

from albert.records import DEV
from albert.records.batches import Data
from albert.records.tf_example import serialize
from albert.training import prepared
from tests.helpers.files import write_records


@pytest.mark.parametrize(("unknown", "share"), [(7, "50.0%"), (9, "0.0%")])
def test_unknown_tokens_and_long_texts_are_counted(tmp_path, log, unknown, share):
    """Five of ten tokens are 7. Three of five records have a sequence without padding."""
    masks = [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0], [1, 0, 1, 1]
    records = [serialize({"input_ids": [7, 5, 5, 7], "input_mask": mask}) for mask in masks]
    spec = {"input_mask": tf.io.FixedLenFeature([2, 2], tf.int64)}
    data = Data([write_records(tmp_path / "records", records)], spec, 5, 5)
    task = types.SimpleNamespace(
        split=lambda _: types.SimpleNamespace(prepared=lambda: data),
        settings=types.SimpleNamespace(length_buckets=None),
        tokenizer=types.SimpleNamespace(unk_id=unknown),
        against_truncation="pass --flag",
    )
    prepared._prepared(task, DEV)
    level = logging.WARNING if unknown == 7 else logging.INFO
    line, *more = log(level)
    assert line.startswith(f"dev: {share} of the tokens are unknown")
    assert ("--do_lower_case" in line) == (unknown == 7)
    assert not more if unknown == 7 else "60.0% of the texts have at least 2 tokens" in more[0]
