"""Variables that start from a checkpoint, and checkpoints that fit no model or are not finite."""

import functools
import json
import logging
import pathlib
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from safetensors.numpy import load_file, save_file

from albert import modeling
from albert.checkpoints import transformers_names
from albert.checkpoints.checkpoint_files import check_fits, load_checkpoint, restore
from albert.checkpoints.initialization import compare_with_checkpoint
from albert.convert.convert import from_transformers, read_source, to_transformers
from albert.convert.settings import ConvertSettings
from albert.core.errors import UserError
from albert.inference import load_model
from albert.tasks.classification.head import pooled_scores
from albert.tasks.squad.head import make_v1_head
from tests.helpers.checkpoints import write_checkpoint
from tests.helpers.models import arrays_of, make_checkpoint

BLOCK = "bert/encoder/transformer/group_{}/inner_group_0"


def make_variables(shapes):
    ones = tf.ones_initializer()
    return [tf.get_variable(name, shape, initializer=ones) for name, shape in shapes.items()]


def filled(shapes):
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}


PARTS = {"attention_1/self/query/kernel": [2, 2], "ffn_1/intermediate/dense/bias": [3]}


def group_shapes(*groups):
    return {f"{BLOCK.format(g)}/{part}": shape for g in groups for part, shape in PARTS.items()}


def blocks(part, *numbers):
    return {f"{BLOCK.format(0)}/{part}_{number}/dense/bias": [2] for number in numbers}


@pytest.mark.parametrize(
    ("stored", "shapes", "first"),
    [
        (group_shapes(0), group_shapes(0, 1, 2), (r"group_.", "group_0")),
        *((blocks(p, 1), blocks(p, 1, 2), (f"{p}_2", f"{p}_1")) for p in ("ffn", "attention")),
        (group_shapes(0, 1), group_shapes(0, 1), ("", "")),
    ],
)
def test_the_first_group_initializes_groups_without_values(tmp_path, stored, shapes, first):
    stored = filled({**stored, "bert/pooler/dense/bias": [2]})
    prefix = write_checkpoint(tmp_path / "ckpt", stored)
    shapes = {**shapes, "bert/pooler/dense/bias": [2]}
    count = max(2, len(shapes) // len(PARTS))
    with tf.Graph().as_default(), tf.Session() as session:
        variables = make_variables({**shapes, "new": [2]})
        maps, initialized = modeling.get_assignment_map_from_checkpoint(variables, prefix, count)
        assert len(maps) == count
        for assignment in maps:
            tf.train.init_from_checkpoint(prefix, assignment)
        session.run(tf.global_variables_initializer())
        values = session.run({variable.op.name: variable for variable in variables})
    assert {name for name in initialized if not name.endswith(":0")} == set(shapes)
    expected = {name: stored[re.sub(rf"(?<=/){first[0]}(?=/)", first[1], name)] for name in shapes}
    np.testing.assert_equal(values, {**expected, "new": np.ones(2, "f4")})


@pytest.mark.parametrize("num_of_group", [0, 1])
def test_up_to_one_group_only_equal_names_match(num_of_group, tmp_path):
    prefix = write_checkpoint(tmp_path / "ckpt", filled({**group_shapes(0), "b": [3]}))
    with tf.Graph().as_default():
        variables = make_variables(group_shapes(0, 1))
        get_map = modeling.get_assignment_map_from_checkpoint
        maps, initialized = get_map(variables, prefix, num_of_group)
    assert dict(maps[0] if num_of_group else maps) == {name: name for name in group_shapes(0)}
    assert initialized == {name + end: 1 for name in group_shapes(0) for end in ("", ":0")}


MODEL = {"bert/w": [2, 3], "bert/b": [3], "head": [2]}


def test_initialize_takes_values_and_reports_them(tmp_path, log):
    stored = filled({"bert/w": [2, 3], "bert/b": [3], "cls/z": [1], "cls/a": [1]})
    slots = filled({"bert/w/adam_m": [2, 3], "bert/w/adam_v": [2, 3]})
    # Slots of another optimizer, and of a variable that the model does not have.
    more = filled({"bert/b/momentum": [3], "cls/z/adam_m": [1]})
    more |= filled({"loss_scale": [], "loss_scale/skipped_steps": []})
    write_checkpoint(tmp_path / "model.ckpt-7", {**stored, **slots, **more})
    with tf.Graph().as_default(), tf.Session() as session:
        variables = make_variables(MODEL)
        slots = make_variables({"bert/w/adam_m": [2, 3], "bert/w/adam_v": [2, 3]})
        summary = modeling.initialize_from_checkpoint(variables, str(tmp_path))
        session.run(tf.global_variables_initializer())
        actual = session.run([*variables, *slots])
    ones = np.ones([2, 3], "f4")
    np.testing.assert_equal(actual, [stored["bert/w"], stored["bert/b"], ones[0, :2], ones, ones])
    taken, unused = {name: name for name in ("bert/w", "bert/b")}, ["cls/a", "cls/z"]
    assert summary == (str(tmp_path / "model.ckpt-7"), taken, ["head"], unused, {}, "")
    summary.log()
    assert log()[-1].endswith("ckpt-7: 2 variables taken; new: head; unused: cls/a, cls/z")


def test_a_module_of_tf_hub_is_read_and_partial_layers_get_a_warning(tmp_path, log):
    names = [f"bert/encoder/layer_{number}/w" for number in range(3)]
    values = filled({f"module/{names[0]}": [2], f"module/{names[2]}": [2]})
    prefix = write_checkpoint(tmp_path / "variables", values)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = make_variables({name: [2] for name in names[:2]})
        start = modeling.initialize_from_checkpoint(variables, prefix)
        session.run(tf.global_variables_initializer())
        taken, _ = session.run(variables)
    np.testing.assert_array_equal(taken, values[f"module/{names[0]}"])
    start.log()
    assert log(logging.WARNING) == [
        "The encoder starts from random values, because the checkpoint lacks 1 variables of its "
        f"layers, such as {names[1]}",
        "The encoder is smaller than the checkpoint's, and does not use 1 variables of its "
        f"layers, such as module/{names[2]}",
    ]


@pytest.mark.parametrize(
    ("new_head", "taken", "warns"), [(None, ["bert/w"], True), (True, ["bert/w"], False)]
)
def test_a_head_of_another_shape_is_new(tmp_path, log, new_head, taken, warns):
    prefix = write_checkpoint(tmp_path / "ckpt", filled({"bert/w": [2], "head": [3]}))
    needed = {"bert/w": [2], "head": [4]}
    with tf.Graph().as_default():
        variables = make_variables(needed)
        start = modeling.initialize_from_checkpoint(variables, prefix, 0, new_head)
        assert ([*start.taken], start.new) == (taken, ["head"])
        start.log()
        expected = "because the checkpoint has other shapes: head float32 [3] (the model has float"
        lines = log(logging.WARNING)
        assert [expected in line and "pass --new_head" in line for line in lines] == [True] * warns
        with pytest.raises(UserError, match=r"1 variables .*; with --new_head, a training starts"):
            modeling.initialize_from_checkpoint(variables, prefix, 0, False)
    # A head of the same shape is taken unless a new one is asked for.
    for choice, names in ((None, ["bert/w", "head"]), (False, ["bert/w", "head"]), (True, taken)):
        start = compare_with_checkpoint({"bert/w": [2], "head": [3]}, prefix, 0, choice)
        assert [*start.taken] == names


@pytest.mark.parametrize("is_theirs", [False, True], ids=["checkpoint", "transformers"])
def test_rows_of_a_head_follow_the_names_of_labels(tmp_path, transformers_folder, log, is_theirs):
    theirs = ["water", "stone", "air"]
    if is_theirs:
        path = transformers_folder(transformers_names.CLASSIFIER, id2label=dict(enumerate(theirs)))
        tensors = load_file(tmp_path / "model.safetensors")
        head = {name: tensors[f"classifier.{name}"] for name in ("weight", "bias")}
    else:
        head = filled({"weight": [3, 8], "bias": [3]})
        values = {"output_weights": head["weight"], "output_bias": head["bias"]}
        write_checkpoint(tmp_path / "model.ckpt-7", values)
        (tmp_path / "assets.extra").mkdir()
        description = json.dumps({"task": "glue", "labels": theirs})
        (tmp_path / "assets.extra/model.json").write_text(description)
        path = str(tmp_path)
    states = np.random.default_rng(0).normal(size=[5, 8]).astype("f4")
    with tf.Graph().as_default(), tf.Session() as session:
        logits = pooled_scores(tf.constant(states), 3, 0.0)
        variables = tf.trainable_variables()
        begin = functools.partial(modeling.initialize_from_checkpoint, variables, path)
        start = begin(labels=["air", "stone", "water"])
        session.run(tf.global_variables_initializer())
        actual = session.run(logits)
        expected = (states @ head["weight"].T + head["bias"])[:, ::-1]
        np.testing.assert_allclose(actual, expected, atol=1e-5)
        start.log()
        assert start.new == []
        assert "The rows of the head are reordered by the names of the labels" in log()

        # Other labels are another head, and numbers are names of nothing.
        others = compare_with_checkpoint({"output_bias": [3], "bert/x": [1]}, path, labels="abc")
        assert others.new == ["output_bias", "bert/x"]
        others.log()
        line = log(logging.WARNING)[-1]
        assert "has the labels water, stone, air, not a, b, c; if that is intended" in line
        with pytest.raises(UserError, match=r"head has the labels .*; a training needs --new_head"):
            begin(new_head=False, labels=["a", "b", "c"])
        assert begin(new_head=False, labels=["stone", "air", "water"]).new == []
        assert "water = 0, stone = 1" in begin(labels=["0", "1", "2"]).about_head


WORDS = "bert/embeddings/word_embeddings"
# Both have a variable of the same shape.
ALBERT = {WORDS: [3, 2], f"{BLOCK.format(0)}/ffn_1/w": [2]}
BERT = {WORDS: [3, 2], "bert/encoder/layer_0/output/dense/kernel": [2]}


@pytest.mark.parametrize(
    ("stored", "expected", "parts"),
    [
        ({"resnet/conv": [3], "bert/x": [1]}, MODEL, ["bert/w", "resnet/conv"]),
        ({"bert/w": [3, 2], "head": [2]}, MODEL, ["bert/w", "[3, 2]", "[2, 3]"]),
        ({WORDS: [3, 2], "bert/block/w": [2]}, ALBERT, ["none of its 2", "has bert/embeddings"]),
        ({WORDS: [3, 2], "bert/encoder/layer_shared/w": [2]}, ALBERT, ["albert_base_zh"]),
        ({WORDS: [3, 2], "w/.ATTRIBUTES/VARIABLE_VALUE": [2]}, ALBERT, ["a checkpoint of Keras"]),
        (BERT, ALBERT, ["needs bert/encoder/tr", "has bert/encoder/la", "--albert_config_file"]),
        (ALBERT, BERT, ["needs bert/encoder/la", "has bert/encoder/tr", "--albert_config_file"]),
        (BERT | {WORDS: [4, 2]}, BERT, ["float32 [4, 2] (", "[3, 2]); pass the --albert_config"]),
        (None, MODEL, ["no such checkpoint"]),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, stored, expected, parts):
    prefix = str(tmp_path / "ckpt")
    if stored:
        write_checkpoint(prefix, filled(stored))
    with tf.Graph().as_default(), pytest.raises(UserError) as caught:
        modeling.initialize_from_checkpoint(make_variables(expected), prefix)
    message = str(caught.value)
    assert [part for part in [prefix, *parts] if part not in message] == []
    assert "head" not in message or "head" not in (stored or {}), "what fits is not named"


def test_another_type_is_an_error(tmp_path):
    arrays = {"w": np.ones([2], "f2"), "b": np.ones([3], "f4")}
    prefix = write_checkpoint(tmp_path / "ckpt", arrays)
    with tf.Graph().as_default():
        variables = make_variables({"w": [2], "b": [3]})
        with pytest.raises(UserError, match=r"1 variables have .* types .*w float16 \[2\]"):
            modeling.initialize_from_checkpoint(variables, prefix)


BIAS = "bert/pooler/dense/bias"


def fails(folder, expected: str = f"3 of 600 in {WORDS}, 1 of 24 in {BIAS}; take another"):
    return pytest.raises(UserError, match=f"^{folder}[^ ]* has .* not finite .*: {expected}")


def test_weights_that_are_not_finite_are_refused(tmp_path):
    """In a checkpoint, and in a folder of transformers."""
    original, there = (str(tmp_path / name) for name in ("from", "there"))
    prefix = f"{original}/model.ckpt"
    make_checkpoint(tmp_path / "from", "albert", "")
    to_transformers(original, there, ConvertSettings())
    arrays, tensors = arrays_of(pathlib.Path(prefix)), load_file(f"{there}/model.safetensors")
    for found, words, bias in (
        (arrays, WORDS, BIAS),
        (tensors, "embeddings.word_embeddings.weight", "pooler.bias"),
    ):
        found[words][0, :3] = np.nan, np.inf, -np.inf
        found[bias][0] = np.nan
    write_checkpoint(prefix, arrays)
    save_file(tensors, f"{there}/model.safetensors")
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(WORDS, [50, 12]), tf.get_variable(BIAS, [24])]
        # Variables that the model does not take do no harm.
        others = [tf.get_variable("bert/pooler/dense/kernel", [24, 24])]
        for check in (
            lambda path, some: check_fits(path, load_checkpoint(path), some),
            lambda path, some: modeling.initialize_from_checkpoint(some, path),
        ):
            check(prefix, others)
            with fails(original):
                check(prefix, variables)
        # Prediction with --init_checkpoint and an export read a folder this way.
        with fails(there):
            restore(session, None, variables, there)
    with fails(original):
        to_transformers(original, str(tmp_path / "to"), ConvertSettings())
    with fails(there):
        from_transformers(there, str(tmp_path / "to"))
    assert {path.name for path in tmp_path.iterdir()} == {"from", "there"}


def test_no_answers_from_outputs_that_are_not_finite(random_model):
    limits = {"doc_stride": 16, "max_query_length": 9, "n_best_size": 3, "max_answer_length": 5}
    head = make_v1_head(mask_padding_in_loss=True)
    folder = pathlib.Path(random_model(head, task="squad-1.1", mask_padding_in_loss=True, **limits))
    arrays = arrays_of(folder / "model.ckpt-best")
    for value in (np.inf, 3e38):
        arrays["cls/squad/output_bias"][1] = arrays["cls/squad/output_weights"][1] = value
        write_checkpoint(folder / "model.ckpt-best", arrays)
        if value == np.inf:
            with fails(folder, "1 of 2 in cls/squad/output_bias, .*; take another checkpoint"):
                load_model(str(folder))
    model = load_model(str(folder))
    with pytest.raises(UserError, match=f"^{folder}: .*end_log_prob .* not finite"):
        model.answer("Where?", ["Rivers run to the sea."])


def test_damaged_values_are_detected_when_read(tmp_path):
    make_checkpoint(tmp_path, "albert", "")
    data = tmp_path / "model.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[::50] = bytes(255 - byte for byte in content[::50])
    data.write_bytes(content)
    prefix = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default():
        variables = [tf.get_variable(WORDS, [50, 12])]
        for read in (
            lambda: check_fits(prefix, load_checkpoint(prefix), variables),
            lambda: read_source(prefix, None),
        ):
            with pytest.raises(UserError, match=f"^{prefix} is damaged: bert/embeddings/.* cannot"):
                read()
