"""Small models with random weights, here and in `transformers`."""

import json
import pathlib
import zlib
from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.checkpoints import transformers_names
from albert.tasks.classification.head import pooled_scores
from albert.tasks.entities.head import make_head as make_tagging_head
from albert.tasks.pretraining import head as pretraining_head
from albert.tasks.squad.head import V2Options, answer_outputs, answer_scores
from tests.helpers.checkpoints import weights
from tests.helpers.encoders import load_random_values

SIZES = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
SIZES |= {"intermediate_size": 40, "max_position_embeddings": 20, "type_vocab_size": 2}
SIZES |= {"initializer_range": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1}
SIZES |= {"attention_probs_dropout_prob": 0.1}
CONFIGS = {"bert": SIZES}
CONFIGS["albert"] = {**SIZES, "embedding_size": 12, "num_hidden_groups": 2, "inner_group_num": 1}
# Each with an activation, so that tests see both.
HEADS = {"": "gelu_erf", "ForPreTraining": "gelu", "ForQuestionAnswering": "gelu"}
HEADS |= {"ForSequenceClassification": "gelu_erf", "ForMultipleChoice": "gelu"}
HEADS |= {"ForTokenClassification": "gelu_erf"}


def make_inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns ids, mask and segments, int32 [6, 15]."""
    rng = np.random.default_rng(0)
    mask = np.ones([6, 15], "i4")
    mask[1::2, 9:] = 0
    ids = rng.integers(0, SIZES["vocab_size"], mask.shape).astype("i4")
    return ids, mask, rng.integers(0, 2, mask.shape).astype("i4")


def build(config: modeling.EncoderConfig, head: str) -> dict[str, tf.Tensor]:
    """Returns a model's outputs in the current graph, under the names that `transformers` uses."""
    model = modeling.AlbertModel(config, False, *map(tf.constant, make_inputs()))
    states, pooled = model.get_sequence_output(), model.get_pooled_output()
    if head == "ForPreTraining":
        labels = tf.zeros([6, 15], tf.int32)
        table = model.get_embedding_table()
        pretraining_head.predict_masked_tokens(config, states, table, labels)
        pretraining_head.predict_relation(config, pooled, tf.zeros([6], tf.int32))
        # These heads return losses; the scores are below.
        layer = tf.get_default_graph().get_tensor_by_name
        words = tf.reshape(layer("cls/predictions/BiasAdd:0"), [6, 15, -1])
        order = layer("cls/seq_relationship/BiasAdd:0")
        return {"prediction_logits": words, "order_logits": order}
    if head == "ForQuestionAnswering":
        return dict(zip(("start_logits", "end_logits"), answer_scores(states), strict=True))
    if head == "ForTokenClassification":
        outputs = make_tagging_head(5, 0.0)(lambda _: model, {}, is_training=False)
        return {"logits": outputs.exported["logits"]}
    if head == "ForSequenceClassification":
        return {"logits": pooled_scores(pooled, 3, 0.0)}
    if head == "ForMultipleChoice":
        return {"logits": tf.reshape(pooled_scores(pooled, 1, 0.0), [2, 3])}
    if head == "v2":
        return answer_outputs(states, tf.zeros([6, 15], tf.int32), V2Options())
    return {"last_hidden_state": states, "pooler_output": pooled}


def make_checkpoint(folder: pathlib.Path, family: str, head: str, **changes) -> dict:
    """Writes a checkpoint with random weights, and its other files; returns the model's outputs."""
    (folder / "assets.extra").mkdir(parents=True, exist_ok=True)
    (folder / "assets.extra/vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n")
    values = {**CONFIGS[family], **changes}
    (folder / f"{family}_config.json").write_text(json.dumps(values))
    config = modeling.read_config(str(folder / f"{family}_config.json"))
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = build(config, head)
        load_random_values(session)
        variables = tf.trainable_variables()
        # What training also leaves.
        step = tf.train.get_or_create_global_step()
        slot = tf.get_variable(f"{variables[0].op.name}/adam_m", initializer=tf.ones([3]))
        session.run([step.initializer, slot.initializer])
        step.load(7, session)
        saver = tf.train.Saver([*variables, step, slot])
        saver.save(session, str(folder / "model.ckpt"), write_meta_graph=False, write_state=False)
        return session.run(outputs)


def compute(config_file: pathlib.Path, checkpoint: pathlib.Path, head: str) -> dict:
    config = modeling.read_config(str(config_file))
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = build(config, head)
        found = modeling.initialize_from_checkpoint(tf.trainable_variables(), str(checkpoint))
        assert not found.new
        session.run(tf.global_variables_initializer())
        return session.run(outputs)


def compute_there(model, head: str) -> dict[str, np.ndarray]:
    import torch

    names = "input_ids", "attention_mask", "token_type_ids"
    inputs = {n: torch.tensor(v).long() for n, v in zip(names, make_inputs(), strict=True)}
    if head == "ForMultipleChoice":
        inputs = {name: value.reshape(2, 3, -1) for name, value in inputs.items()}
    with torch.no_grad():
        outputs = model.eval()(**inputs)
    found = {name: value.numpy() for name, value in outputs.items()}
    order = {"sop_logits": "order_logits", "seq_relationship_logits": "order_logits"}
    return {order.get(name, name): value for name, value in found.items()}


def class_of(family: str, head: str) -> Callable:
    import transformers

    return getattr(transformers, family.capitalize() + (head or "Model"))


def arrays_of(checkpoint: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the variables of a TensorFlow checkpoint, except the optimizer's."""
    found = weights(checkpoint.parent, checkpoint.name)
    return {name: v for name, v in found.items() if not name.endswith(("/adam_m", "/adam_v"))}


def same_arrays(first: dict, second: dict) -> None:
    """Fails unless names, types and bits are the same."""
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype, name
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def tensors_of(config: dict, *parts: str) -> dict[str, np.ndarray]:
    """Returns different arrays for the parts of a model, by their names in `transformers`."""
    tensors = {}
    pairs = transformers_names.pairs_of(config["model_type"], config)
    for pair in (p for part in (transformers_names.ENCODER, *parts) for p in pairs.get(part, ())):
        labels = config.get("id2label") or range(config.get("num_labels", 2))
        shape = [len(labels) if n == -1 else n for n in pair.shape]
        shape = shape[::-1] if pair.is_transposed else shape
        # The order of the names does not matter.
        rng = np.random.default_rng([1, zlib.crc32(pair.theirs.encode())])
        tensors[pair.theirs] = rng.normal(size=shape).astype("f4")
    return tensors
