"""Folders of `transformers` as they occur: old names, several files, and faults."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from albert.checkpoints import transformers_names as names
from albert.checkpoints.checkpoint_files import content_of_checkpoint, resolve_checkpoint
from albert.checkpoints.configurations import config_from_theirs, config_to_theirs
from albert.checkpoints.transformers_folder import TransformersFolder, is_transformers_folder
from albert.core.errors import UserError
from tests.helpers.models import tensors_of

SIZES = {"vocab_size": 7, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 6, "max_position_embeddings": 5, "type_vocab_size": 2}
CONFIG = {"model_type": "bert", **SIZES, "hidden_act": "gelu"}
ALBERT = {"model_type": "albert", "num_hidden_layers": 2, "num_hidden_groups": 1}
ALBERT |= {"embedding_size": 4, "inner_group_num": 1}
WORDS = "bert.embeddings.word_embeddings.weight"


TENSORS = tensors_of(CONFIG, names.NEXT_SENTENCE)
WITHOUT_BIAS = {n: v for n, v in TENSORS.items() if n != "cls.seq_relationship.bias"}


@pytest.fixture
def write(tmp_path):
    """Writes a folder and returns its path; None as a change of its configuration removes a key."""

    def write(tensors=None, metadata=None, **changes) -> str:
        config = {name: value for name, value in {**CONFIG, **changes}.items() if value is not None}
        (tmp_path / "config.json").write_text(json.dumps(config))
        save_file(tensors or tensors_of(CONFIG), tmp_path / "model.safetensors", metadata)
        return str(tmp_path)

    return write


@pytest.mark.parametrize(
    ("family", "theirs", "ours"),
    [
        *(("bert", name, "gelu_erf") for name in ("gelu", "gelu_python")),
        *(("albert", name, name) for name in ("relu", "tanh", "linear")),
        *(("bert", name, "gelu") for name in ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")),
        # The default of `transformers` where a configuration has none.
        *(("bert", None, "gelu_erf"), ("albert", None, "gelu")),
    ],
)
def test_activations_map_both_ways(family, theirs, ours):
    config = {"model_type": family, **SIZES, **({"hidden_act": theirs} if theirs else {})}
    actual = config_from_theirs(config)
    assert actual["hidden_act"] == ours
    back = config_to_theirs(family, actual)["hidden_act"]
    assert config_from_theirs({**config, "hidden_act": back})["hidden_act"] == ours


def test_old_names_and_tied_copies_are_read(write):
    tensors = tensors_of(CONFIG, names.MASKED_TOKENS)
    changes = ("Norm.weight", "Norm.gamma"), ("Norm.bias", "Norm.beta")
    old = {n.replace(*changes[0]).replace(*changes[1]): v for n, v in tensors.items()}
    old["bert.embeddings.position_ids"] = np.arange(5)[None]
    old["cls.predictions.decoder.weight"] = tensors[WORDS]
    old["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    folder = TransformersFolder(write(old))
    gamma = folder.get_tensor("bert/embeddings/LayerNorm/gamma")
    np.testing.assert_array_equal(gamma, tensors["bert.embeddings.LayerNorm.weight"])
    old["cls.predictions.decoder.weight"] = tensors[WORDS] + 1
    with pytest.raises(UserError, match=r"decoder\.weight differs from bert\.embeddings"):
        TransformersFolder(write(old))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_becomes_float32_exactly(write, dtype):
    """Of an encoder without head, whose tensors have no prefix."""
    tensors = {n.removeprefix("bert."): v.astype(dtype) for n, v in tensors_of(CONFIG).items()}
    words = TransformersFolder(write(tensors)).get_tensor("bert/embeddings/word_embeddings")
    assert words.dtype == np.float32
    expected = tensors[WORDS.removeprefix("bert.")].astype(np.float64)
    np.testing.assert_array_equal(words, expected)


def test_several_files_read_as_one(tmp_path, write):
    tensors = tensors_of(CONFIG, names.SQUAD_V1)
    whole = TransformersFolder(write(tensors))
    expected = {name: whole.get_tensor(name) for name in whole.get_variable_to_shape_map()}
    original = whole.content()
    (tmp_path / "model.safetensors").unlink()
    files = {name: f"model-{n % 2}.safetensors" for n, name in enumerate(tensors)}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))

    def content_if(changed):
        for file in set(files.values()):
            part = {n: v + (file == changed) for n, v in tensors.items() if files[n] == file}
            save_file(part, tmp_path / file)
        return TransformersFolder(str(tmp_path)).content()

    contents = [original, *map(content_if, ("model-0.safetensors", "model-1.safetensors", None))]
    assert len(set(contents)) == 4, "each file counts"
    assert contents[-1] == content_of_checkpoint(str(tmp_path))
    assert resolve_checkpoint(f"{tmp_path}/") == str(tmp_path)
    folder = TransformersFolder(str(tmp_path))
    actual = {name: folder.get_tensor(name) for name in folder.get_variable_to_shape_map()}
    np.testing.assert_equal(actual, expected)
    # SQuAD's model in `transformers` has no pooler; here it has one, which it does not use.
    assert not folder.get_tensor("bert/pooler/dense/kernel").any()

    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(UserError, match=r"lacks model-1\.safetensors, which model\..*json lists"):
        TransformersFolder(str(tmp_path))
    index.write_text("{}")
    with pytest.raises(UserError, match=r"index\.json is damaged"):
        TransformersFolder(str(tmp_path))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model_type": "roberta"}, "config.json: unsupported model_type 'roberta'; supported: al"),
        ({"hidden_size": None}, r"config\.json has no hidden_size"),
        ({"hidden_act": "mish"}, "unsupported hidden_act 'mish'; supported: gelu_new, gelu,"),
        ({"layer_norm_eps": 1e-5}, "unsupported layer_norm_eps 1e-05; supported: 1e-12"),
        ({"position_embedding_type": "relative"}, "unsupported position_embedding_type 'relative'"),
        ({"num_hidden_layers": 2}, "lacks bert.encoder.layer.1.*, ..., which its config requires"),
        ({"vocab_size": 9}, r"word_embeddings.weight has shape \[7, 4\], but .* requires \[9, 4\]"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers must be a positive int.*not '2'"),
        ({"hidden_act": ["gelu"]}, r"unsupported hidden_act \['gelu'\]"),
        ({"tensors": {**TENSORS, "x.weight": TENSORS[WORDS]}}, " has x.weight, which no supported"),
        ({"tensors": {n: v.astype("f8") for n, v in TENSORS.items()}}, "F64.*=torch.float32"),
        ({"tensors": WITHOUT_BIAS}, r" lacks cls\.seq_relationship\.bias, which its"),
    ],
)
def test_other_models_are_refused(write, changes, message):
    with pytest.raises(UserError, match=message):
        TransformersFolder(write(**changes))


def test_only_a_whole_number_is_a_step(write):
    for step in ("7", "1.5", "", "-5", "9" * 30, "\u0663"):
        folder = TransformersFolder(write(metadata={"global_step": step}))
        assert ("global_step" in folder.get_variable_to_shape_map()) == (step == "7")


def test_a_mapping_layer_is_checked_against_the_file(write):
    """Nothing is allocated from the configuration before the file is known to fit it."""
    name, small = "albert.encoder.embedding_hidden_mapping_in.weight", CONFIG | ALBERT
    tensors = {**tensors_of(small), name: np.eye(4, dtype="f4")}
    assert TransformersFolder(write(tensors, **small)).parts == [names.ENCODER]
    wide = small | {"embedding_size": 10**6, "hidden_size": 10**6}
    with pytest.raises(UserError, match=rf"{name} has shape \[4, 4\], but its configuration"):
        TransformersFolder(write(tensors, **wide))


@pytest.mark.parametrize("name", ["../w.safetensors", "b/w.safetensors", "{}/w.safetensors"])
def test_weights_in_another_folder_are_not_read(tmp_path, write, name):
    path, inside = write(), tmp_path / "inside"
    (inside / "b").mkdir(parents=True)
    for target in (tmp_path, inside / "b"):
        shutil.copy(f"{path}/model.safetensors", target / "w.safetensors")
    shutil.copy(f"{path}/config.json", inside)
    weight_map = {"weight_map": {WORDS: name.format(tmp_path)}}
    (inside / "model.safetensors.index.json").write_text(json.dumps(weight_map))
    message = rf"index\.json names {name.format(tmp_path)}, which is not in its folder"
    with pytest.raises(UserError, match=message):
        TransformersFolder(str(inside))


def test_damaged_missing_and_pickled_files_are_refused(tmp_path, write):
    path, file = write(), tmp_path / "model.safetensors"
    assert is_transformers_folder(path) and not is_transformers_folder(f"{path}/none")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"model\.safetensors is damaged or cannot be read"):
        TransformersFolder(path)
    file.unlink()
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        resolve_checkpoint(path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(UserError, match=r"refusing to load the pickle .*safe_serialization"):
        resolve_checkpoint(path)
    # Checkpoints next to it take precedence.
    (tmp_path / "model.ckpt.index").touch()
    assert not is_transformers_folder(path)
