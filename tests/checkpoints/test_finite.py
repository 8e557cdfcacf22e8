"""Weights that are NaN or infinite are refused wherever a model reads weights."""

import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from safetensors.numpy import load_file, save_file

from albert.checkpoints.checkpoint_files import as_files, check_fits
from albert.checkpoints.initialization import initialize_from_checkpoint
from albert.convert.convert import ConversionOptions, from_transformers, to_transformers
from albert.convert.source import find_source, read_variables
from albert.core.errors import UserError
from albert.inference import load_model
from albert.tasks.squad.head import make_v1_head
from tests.helpers.checkpoints import write_checkpoint
from tests.helpers.models import arrays_of, make_checkpoint

WORDS = "bert/embeddings/word_embeddings"
BIAS = "bert/pooler/dense/bias"


def spoil(arrays: dict[str, np.ndarray], words: str, bias: str) -> None:
    arrays[words][0, :3] = np.nan, np.inf, -np.inf
    arrays[bias][0] = np.nan


def fails(folder, expected: str = f"3 of 600 in {WORDS}, 1 of 24 in {BIAS}; take another"):
    return pytest.raises(UserError, match=f"^{folder}[^ ]* has .* not finite .*: {expected}")


def test_a_model_refuses_weights_that_are_not_finite(tmp_path):
    spoilt = tmp_path / "spoilt"
    make_checkpoint(spoilt, "albert", "")
    prefix = str(spoilt / "model.ckpt")
    arrays = arrays_of(spoilt / "model.ckpt")
    spoil(arrays, WORDS, BIAS)
    write_checkpoint(prefix, arrays)
    with tf.Graph().as_default():
        variables = [tf.get_variable(WORDS, [50, 12]), tf.get_variable(BIAS, [24])]
        # Variables that the model does not take do no harm.
        others = [tf.get_variable("bert/pooler/dense/kernel", [24, 24])]
        for check in (check_fits, lambda first, second: initialize_from_checkpoint(second, first)):
            check(prefix, others)
            with fails(spoilt):
                check(prefix, variables)
    with fails(spoilt):
        to_transformers(str(spoilt), str(tmp_path / "to"), ConversionOptions())
    assert list(tmp_path.iterdir()) == [spoilt]


def test_a_transformers_folder_with_such_weights_is_refused(tmp_path):
    make_checkpoint(tmp_path / "from", "albert", "")
    there = tmp_path / "there"
    to_transformers(str(tmp_path / "from"), str(there), ConversionOptions())
    tensors = load_file(there / "model.safetensors")
    spoil(tensors, "embeddings.word_embeddings.weight", "pooler.bias")
    save_file(tensors, there / "model.safetensors")
    with fails(there):
        from_transformers(str(there), str(tmp_path / "to"))
    assert not (tmp_path / "to").exists()
    # Prediction with --init_checkpoint and an export read it this way.
    with fails(there), as_files(str(there)):
        pass


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
        for read in (check_fits, lambda *_: read_variables(find_source(prefix, None))):
            with pytest.raises(UserError, match=f"^{prefix} is damaged: bert/embeddings/.* cannot"):
                read(prefix, variables)
