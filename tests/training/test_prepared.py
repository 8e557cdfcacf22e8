"""The data of a run, before it begins."""

import logging
import types

import pytest

from albert.records import DEV
from albert.records.batches import Data
from albert.records.tf_example import serialize
from albert.training import prepared
from tests.helpers.files import write_records


@pytest.mark.parametrize(("unknown", "level"), [(7, logging.WARNING), (9, logging.INFO)])
def test_a_tokenizer_that_does_not_fit_the_text_is_a_warning(tmp_path, log, unknown, level):
    """One of three tokens is 7; padding does not count."""
    record = serialize({"input_ids": [7, 5, 5, 7], "input_mask": [1, 1, 1, 0]})
    data = Data([write_records(tmp_path / "records", [record])], {}, 1, 1)
    task = types.SimpleNamespace(
        split=lambda _: types.SimpleNamespace(prepared=lambda: data),
        settings=types.SimpleNamespace(length_buckets=None),
        tokenizer=types.SimpleNamespace(unk_id=unknown),
        against_truncation="",
    )
    prepared._prepared(task, DEV)
    (line,) = log(level)
    share = "33.3%" if unknown == 7 else "0.0%"
    assert line.startswith(f"dev: {share} of the tokens are unknown")
    assert ("--do_lower_case" in line) == (unknown == 7)
