"""Records of features: the reference's keys, and the spec that reads them."""

import pytest
import tensorflow.compat.v1 as tf

from squad.records import feature_spec
from squad_utils import FeatureWriter, InputFeatures

LENGTH = 8
COMMON_KEYS = {"unique_ids", "input_ids", "input_mask", "segment_ids", "p_mask"}
ANSWER_KEYS = {"start_positions", "end_positions", "is_impossible"}


def make_feature(number, **changes):
    values = {
        **{"unique_id": 1000000000 + number, "example_index": number, "doc_span_index": 0},
        **{"tok_start_to_orig_index": [0, 1], "tok_end_to_orig_index": [0, 1]},
        "token_is_max_context": {3: True, 4: True},
        "tokens": ["[CLS]", "a", "[SEP]", "b", "c", "[SEP]"],
        "input_ids": [2, 10 + number, 3, 12, 13, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 1, 1, 1, 0, 0],
        "paragraph_len": 6,
        "p_mask": [0, 1, 1, 0, 0, 1, 1, 1],
        **{"start_position": 3, "end_position": 4, "is_impossible": False},
    }
    return InputFeatures(**{**values, **changes})


ROW = {
    "unique_ids": [1000000000],
    "input_ids": [2, 10, 3, 12, 13, 3, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 1, 1, 1, 0, 0],
    "p_mask": [0, 1, 1, 0, 0, 1, 1, 1],
    **{"start_positions": [3], "end_positions": [4], "is_impossible": [0]},
}


@pytest.mark.parametrize("training", [True, False])
def test_writer_and_spec(tmp_path, training):
    """A feature of prediction has no answer."""
    path = str(tmp_path / "f")
    writer = FeatureWriter(filename=path, is_training=training)
    writer.process_feature(make_feature(0))
    writer.process_feature(make_feature(1, start_position=0, end_position=0, is_impossible=True))
    writer.close()
    assert (writer.num_features, writer.is_training, writer.filename) == (2, training, path)
    records = list(tf.io.tf_record_iterator(path))
    rows = [
        {key: list(value.int64_list.value) for key, value in features.feature.items()}
        for features in (tf.train.Example.FromString(record).features for record in records)
    ]
    keys = COMMON_KEYS | (ANSWER_KEYS if training else set())
    assert rows[0] == {key: ROW[key] for key in keys}
    changed = {"unique_ids": [1000000001], "input_ids": [2, 11, 3, 12, 13, 3, 0, 0]}
    changed |= {"start_positions": [0], "end_positions": [0], "is_impossible": [1]}
    assert rows[1] == {key: {**ROW, **changed}[key] for key in keys}
    for with_p_mask in (True, False):
        spec = feature_spec(LENGTH, training, with_p_mask)
        assert spec.keys() == (keys if with_p_mask else keys - {"p_mask"})
        with tf.Graph().as_default(), tf.Session() as session:
            got = session.run(tf.io.parse_example(records, spec))
        for key in spec:
            assert got[key].shape == ((2,) if len(ROW[key]) == 1 else (2, LENGTH))
            assert got[key].reshape(2, -1).tolist() == [row[key] for row in rows]
