"""Which variables start from a checkpoint, and what fits no model."""

import math
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from runtime.checkpoints.initialization import Initialized
from runtime.errors import UserError

BLOCK = "bert/encoder/transformer/group_{}/inner_group_0"


def make_variables(shapes):
    """Variables of the current graph, all ones."""
    return [
        tf.get_variable(name, shape, initializer=tf.ones_initializer())
        for name, shape in shapes.items()
    ]


def write_checkpoint(prefix, values):
    """Saves arrays under their names."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(n, initializer=tf.constant(v)) for n, v in values.items()]
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(variables)
        return saver.save(session, str(prefix), write_meta_graph=False, write_state=False)


def filled(values):
    """Different arrays of the given shapes."""
    return {
        name: np.arange(math.prod(shape), dtype="f4").reshape(shape) + 10 * (i + 1)
        for i, (name, shape) in enumerate(values.items())
    }


def test_assignment_map_pairs_equal_names(tmp_path):
    prefix = write_checkpoint(tmp_path / "ckpt", filled({"a/w": [2], "b": [3], "c": [1]}))
    with tf.Graph().as_default():
        variables = make_variables({"a/w": [2], "c": [1], "d": [4]})
        assignment, initialized = modeling.get_assignment_map_from_checkpoint(variables, prefix)
    assert dict(assignment) == {"a/w": "a/w", "c": "c"}
    assert initialized == {"a/w": 1, "a/w:0": 1, "c": 1, "c:0": 1}


def take_with_groups(prefix, shapes, num_of_group):
    """The graph's values after all assignment maps, and the names said to be initialized."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = make_variables(shapes)
        maps, initialized = modeling.get_assignment_map_from_checkpoint(
            variables, prefix, num_of_group
        )
        assert len(maps) == num_of_group
        for assignment in maps:
            tf.train.init_from_checkpoint(prefix, assignment)
        session.run(tf.global_variables_initializer())
        return {v.op.name: session.run(v) for v in variables}, initialized


GROUP_PARTS = {
    "attention_1/self/query/kernel": [2, 2],
    "LayerNorm/gamma": [2],
    "ffn_1/intermediate/dense/bias": [3],
}


def group_shapes(*groups):
    return {f"{BLOCK.format(g)}/{p}": s for g in groups for p, s in GROUP_PARTS.items()}


@pytest.mark.parametrize("groups", [2, 3])
def test_first_group_of_a_checkpoint_serves_all_groups(groups, tmp_path):
    stored = filled({**group_shapes(0), "bert/pooler/dense/bias": [2]})
    prefix = write_checkpoint(tmp_path / "ckpt", stored)
    shapes = {**group_shapes(*range(groups)), "bert/pooler/dense/bias": [2], "new": [2]}
    values, initialized = take_with_groups(prefix, shapes, groups)
    assert {n for n in initialized if not n.endswith(":0")} == set(shapes) - {"new"}
    not_taken = [
        name
        for name in shapes
        if name != "new" and (values[name] != stored[re.sub(r"/group_.", "/group_0", name)]).any()
    ]
    assert not_taken == []


@pytest.mark.parametrize("part", ["ffn", "attention"])
def test_first_block_of_a_checkpoint_serves_further_blocks(part, tmp_path):
    block = BLOCK.format(0)
    stored = filled({f"{block}/{part}_1/dense/bias": [2]})
    prefix = write_checkpoint(tmp_path / "ckpt", stored)
    shapes = {f"{block}/{part}_{i}/dense/bias": [2] for i in (1, 2)}
    values, _ = take_with_groups(prefix, shapes, 2)
    for value in values.values():
        np.testing.assert_array_equal(value, stored[f"{block}/{part}_1/dense/bias"])


def test_own_values_of_a_group_win_over_the_first_groups(tmp_path):
    stored = filled(group_shapes(0, 1))
    prefix = write_checkpoint(tmp_path / "ckpt", stored)
    values, _ = take_with_groups(prefix, group_shapes(0, 1), 2)
    for name, value in values.items():
        np.testing.assert_array_equal(value, stored[name])


@pytest.mark.parametrize("num_of_group", [0, 1])
def test_up_to_one_group_means_equal_names_only(num_of_group, tmp_path):
    prefix = write_checkpoint(tmp_path / "ckpt", filled(group_shapes(0)))
    with tf.Graph().as_default():
        variables = make_variables(group_shapes(0, 1))
        maps, initialized = modeling.get_assignment_map_from_checkpoint(
            variables, prefix, num_of_group
        )
    assignment = maps[0] if num_of_group else maps
    assert dict(assignment) == {name: name for name in group_shapes(0)}
    assert not any("group_1" in name.replace("inner_group", "") for name in initialized)


MODEL = {"bert/w": [2, 3], "bert/b": [3], "head": [2]}


@pytest.mark.parametrize("path", ["model.ckpt-7", "model.ckpt-7.index", ""])
def test_initialize_takes_values_and_says_which(path, tmp_path):
    stored = filled({"bert/w": [2, 3], "bert/b": [3], "cls/z": [1], "cls/a": [1]})
    stored["bert/w/adam_m"] = np.full([2, 3], 5, "f4")
    stored["bert/w/adam_v"] = np.full([2, 3], 6, "f4")
    # Another optimizer's, and one of a variable that the model does not have.
    stored["bert/b/momentum"] = np.full([3], 7, "f4")
    stored["cls/z/adam_m"] = np.full([1], 8, "f4")
    write_checkpoint(tmp_path / "model.ckpt-7", stored)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = make_variables(MODEL)
        slots = make_variables({"bert/w/adam_m": [2, 3], "bert/w/adam_v": [2, 3]})
        summary = modeling.initialize_from_checkpoint(variables, str(tmp_path / path))
        session.run(tf.global_variables_initializer())
        w, b, head = session.run(variables)
        for slot in session.run(slots):
            np.testing.assert_array_equal(slot, np.ones([2, 3]))
    np.testing.assert_array_equal(w, stored["bert/w"])
    np.testing.assert_array_equal(b, stored["bert/b"])
    np.testing.assert_array_equal(head, [1, 1])
    assert summary._asdict() == {
        "checkpoint": str(tmp_path / "model.ckpt-7"),
        "taken": ["bert/w", "bert/b"],
        "new": ["head"],
        "unused": ["cls/a", "cls/z"],
    }


def test_summary_log_names_what_was_not_taken(caplog, monkeypatch):
    summary = Initialized("out/ckpt", taken=["a", "b"], new=["head"], unused=["cls/a"])
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    with caplog.at_level("INFO", logger="tensorflow"):
        summary.log()
    assert "out/ckpt: 2 variables taken; new: head; unused: cls/a" in caplog.text


def initialize_error(tmp_path, stored):
    """The message of the error that initializing from arrays ends in."""
    write_checkpoint(tmp_path / "model.ckpt-7", stored)
    with tf.Graph().as_default(), pytest.raises(UserError) as caught:
        variables = make_variables(MODEL)
        modeling.initialize_from_checkpoint(variables, str(tmp_path / "model.ckpt-7"))
    assert str(tmp_path / "model.ckpt-7") in str(caught.value)
    return str(caught.value)


def test_initialize_from_a_strangers_checkpoint_names_variables_of_both(tmp_path):
    message = initialize_error(tmp_path, filled({"resnet/conv": [3], "bert/x": [1]}))
    assert "bert/w" in message
    assert "bert/x" in message


def test_initialize_from_other_shapes_names_them(tmp_path):
    message = initialize_error(tmp_path, filled({"bert/w": [3, 2], "bert/b": [4], "head": [2]}))
    for part in ("bert/w", "[3, 2]", "[2, 3]", "bert/b", "[4]", "[3]"):
        assert part in message
    assert "head" not in message


ALBERT, BERT = f"{BLOCK.format(0)}/ffn_1/w", "bert/encoder/layer_0/output/dense/kernel"
WORDS = "bert/embeddings/word_embeddings"


@pytest.mark.parametrize(
    ("stored", "wanted", "message"),
    [
        (BERT, ALBERT, "is a checkpoint of BERT, --albert_config_file is of ALBERT"),
        (ALBERT, BERT, "is a checkpoint of ALBERT, --albert_config_file is of BERT"),
    ],
)
def test_initialize_from_the_other_model_says_which_is_which(tmp_path, stored, wanted, message):
    """Though variables of both have the same names and shapes."""
    prefix = write_checkpoint(tmp_path / "ckpt", filled({WORDS: [3, 2], stored: [2]}))
    with tf.Graph().as_default(), pytest.raises(UserError, match=f"ckpt {message}"):
        modeling.initialize_from_checkpoint(make_variables({WORDS: [3, 2], wanted: [2]}), prefix)


def test_initialize_from_another_vocabulary_says_the_sizes(tmp_path):
    prefix = write_checkpoint(tmp_path / "ckpt", filled({WORDS: [4, 2], BERT: [2]}))
    with tf.Graph().as_default(), pytest.raises(UserError, match="vocabulary of 4 .*_size of 3"):
        modeling.initialize_from_checkpoint(make_variables({WORDS: [3, 2], BERT: [2]}), prefix)


def test_initialize_from_a_missing_checkpoint_is_an_error(tmp_path):
    with tf.Graph().as_default(), pytest.raises(UserError, match="nowhere"):
        modeling.initialize_from_checkpoint(make_variables(MODEL), str(tmp_path / "nowhere"))


@pytest.mark.parametrize("dtype", ["f2", "f8"])
def test_another_type_is_an_error(tmp_path, dtype):
    prefix = write_checkpoint(
        tmp_path / "ckpt", {"w": np.ones([2], dtype), "b": np.ones([3], "f4")}
    )
    with tf.Graph().as_default():
        variables = make_variables({"w": [2], "b": [3]})
        with pytest.raises(UserError, match=r"1 variables have .* types .*w float\d\d \[2\]"):
            modeling.initialize_from_checkpoint(variables, prefix)
