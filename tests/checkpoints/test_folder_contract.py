"""Values of a model's own files: each is computed, refused, or named."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import albert
from albert.checkpoints import transformers_names as names
from albert.checkpoints.folder_contract import TOKENIZER, TOKENIZER_JSON, checked
from albert.checkpoints.foreign_models import description_of
from albert.checkpoints.model_folder import pretrained_files
from albert.core.errors import UserError
from albert.inference.embedding import Embedder
from albert.tokenizers.tokenizer_json import is_unigram, parse_tokenizer
from tests.helpers.files import write_files
from tests.helpers.fixtures import SIZES

MODULE = "sentence_transformers.base.modules.transformer.Transformer"
POOLING = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"


@pytest.fixture
def write(transformers_folder, tmp_path):
    """Writes a folder of `transformers`, with values for its other files."""

    def write(files=None, part="", **config) -> str:
        folder = transformers_folder(part, **config)
        write_files(tmp_path, {name: json.dumps(value) for name, value in (files or {}).items()})
        return folder

    return write


@pytest.mark.parametrize(
    ("file", "key", "values"),
    [
        ("config.json", "id2label", ([], 5, {"0": ["x"]}, {"a": "b"})),
        ("config.json", "architectures", ({"a": 1}, "BertModel")),
        ("config.json", "hidden_dropout_prob", ("0.1", 2)),
        ("config.json", "is_decoder", (True,)),
        ("config.json", "auto_map", ({"AutoModel": "own.py"},)),
        ("config.json", "tokenizer_class", ("XLMRobertaTokenizer", 5)),
        ("tokenizer_config.json", "tokenizer_class", ("BertJapaneseTokenizer", "KoBertTokenizer")),
        ("tokenizer_config.json", "do_lower_case", ("true", 1)),
        ("tokenizer_config.json", "never_split", (["[E1]"],)),
        ("tokenizer_config.json", "do_basic_tokenize", (False,)),
        ("tokenizer_config.json", "truncation_side", ("left",)),
        ("tokenizer_config.json", "padding_side", ("left",)),
        ("tokenizer_config.json", "model_max_length", ("64", -1, True)),
        ("tokenizer_config.json", "word_tokenizer_type", ("mecab",)),
        ("tokenizer_config.json", "added_tokens_decoder", ({"x": "a"}, {"5": {"content": 1}})),
        ("special_tokens_map.json", "cls_token", ("<s>", {"content": "<s>"}, 1)),
        ("tokenizer.json", "normalizer", ("x", {"type": "Sequence", "normalizers": 5})),
        ("sentence_bert_config.json", "max_seq_length", (-1, 1, "16", 16.5, True, [16])),
        ("config_sentence_transformers.json", "prompts", (["a"], {"query": 1})),
    ],
)
def test_values_that_are_not_computed_are_errors(write, file, key, values):
    for value in values:
        own = {"model": {"type": "WordPiece", "vocab": {}}} if file == "tokenizer.json" else {}
        files = {} if file == "config.json" else {file: {**own, key: value}}
        files["modules.json"] = [{"type": MODULE, "path": ""}]
        with pytest.raises(UserError, match=rf"{key}|tokenizer is a") as caught:
            albert.load(write(files, **({key: value} if file == "config.json" else {})))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_seq_length", (0, 1, "32", None, 3.5, True)),
        ("doc_stride", ("x", 1.5, 0)),
        ("n_best_size", (0, -1, "5", None)),
        ("max_answer_length", (0,)),
    ],
)
def test_odd_values_of_a_converted_model_are_errors(write, name, values):
    known = albert.load(write(part=names.SQUAD_V1)).folder.description
    for value in values:
        params = {"albert-tf": {**known, name: value}}
        with pytest.raises(UserError, match=rf"albert-tf: unsupported {name} {value!r}"):
            albert.load(write(part=names.SQUAD_V1, task_specific_params=params))


def test_files_of_early_libraries_are_read():
    """Without what later versions write: a direction, a type, and tokens that were added."""
    cut = {"max_length": 128, "strategy": "LongestFirst", "stride": 0}
    assert checked({"truncation": cut}, TOKENIZER_JSON, "x") == {"truncation": cut}
    assert checked({"added_tokens_decoder": {}}, TOKENIZER, "x") == {"added_tokens_decoder": {}}
    for vocab, is_list in (({"[UNK]": 0}, False), ([["<unk>", 0.0]], True)):
        content = json.dumps({"model": {"vocab": vocab}}).encode()
        assert is_unigram(parse_tokenizer(content, "x")) == is_list
    with pytest.raises(UserError, match="has a tokenizer of the type None"):
        parse_tokenizer(b'{"model": {"vocab": {}, "merges": []}}', "x")


def test_unknown_keys_are_named_once(write, caplog):
    path = write({"tokenizer_config.json": {"new_a": 1, "padding_side": "right"}}, new_b=2, new_c=3)
    for _ in range(2):
        description_of(pretrained_files(path))
    lines = [record.getMessage() for record in caplog.records if "does not know" in record.msg]
    assert sorted(line.partition(" has ")[2] for line in lines) == [
        "new_a, which this project does not know and ignores",
        "new_b, new_c, which this project does not know and ignores",
    ]


def test_a_folder_that_is_written_again_is_read_again(write):
    labels = {"0": "a", "1": "b", "2": "c"}
    assert albert.load(write(part=names.CLASSIFIER)).labels == ["LABEL_0", "LABEL_1"]
    assert albert.load(write(part=names.CLASSIFIER, id2label=labels)).labels == [*"abc"]
    assert type(albert.load(write(part=names.SQUAD_V1))).__name__ == "QuestionAnswerer"


def test_what_is_not_needed_is_not_demanded(write, tmp_path):
    """Without pooler and model_type, with more rows than pieces, and names from torch.compile."""
    path = write(embedding_size=24, architectures=["BertModel"])
    expected = albert.load(path).encode(["one two"])
    tensors = load_file(tmp_path / "model.safetensors")
    words = "bert.embeddings.word_embeddings.weight"
    tensors[words] = np.pad(tensors[words], [(0, 3), (0, 0)])
    tensors = {f"_orig_mod.{n}": value for n, value in tensors.items() if "pooler" not in n}
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_type"]
    config["vocab_size"] += 3
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(tensors, tmp_path / "model.safetensors")
    model = albert.load(path)
    np.testing.assert_allclose(model.encode(["one two"]), expected, atol=1e-6)
    assert model.embed(["one two"])[0].pooled is None
    with pytest.raises(UserError, match="has no pooler"):
        Embedder(model.folder, [-1], pooled=True)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("adapter_config.json", "merge the adapter"),
        ("tf_model.h5", "from_tf=True"),
        ("flax_model.msgpack", "from_flax=True"),
        ("checkpoint-500/config.json", "pass .*checkpoint-500"),
        ("snapshots/abc/config.json", "pass .*snapshots/abc"),
        ("onnx/model.onnx", "onnx/model.onnx: pass the folder"),
    ],
)
def test_weights_in_another_form_are_named(tmp_path, file, message):
    for _ in range(2):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("{}")
        with pytest.raises(UserError, match=message):
            albert.load(tmp_path)
        (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 9, **SIZES}))


def test_pointers_of_git_lfs_are_named(write, tmp_path):
    path, pointer = write(), "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    for name in ("vocab.txt", "model.safetensors"):
        (tmp_path / name).write_text(pointer)
        with pytest.raises(UserError, match=rf"{name} is a pointer of Git LFS.*git lfs pull"):
            albert.load(path)
        write()


def pooling_of(**values) -> dict:
    modules = [{"type": MODULE, "path": ""}, {"type": POOLING, "path": "1_Pooling"}]
    modules.append({"type": "sentence_transformers.models.Dropout", "path": "2_Dropout"})
    return {"modules.json": modules, "1_Pooling/config.json": values}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["mean"], "embedding_dimension": 8}, "mean"),
        ({"word_embedding_dimension": 8}, "mean"),
    ],
)
def test_the_pooling_of_any_version_is_read(write, values, expected):
    assert albert.load(write(pooling_of(**values))).folder.description["pooling"] == expected


def test_the_default_prompt_is_put_before_texts(write):
    """And its tokens, with [CLS], count only if `include_prompt` says so."""
    prompts = {"default_prompt_name": "q", "prompts": {"q": "one two ", "d": "x"}}
    files = {"config_sentence_transformers.json": prompts}
    states = albert.load(write()).embed(["one two three"])[0].layers[-1]
    first = len(albert.load(write()).embed(["one two"])[0].tokens) - 1
    for mode, include, expected in (
        ("mean", True, states.mean(0)),
        ("mean", False, states[first:].mean(0)),
        ("cls", False, states[first]),
    ):
        pooling = pooling_of(pooling_mode=mode, include_prompt=include)
        (vector,) = albert.load(write({**files, **pooling})).encode(["three"])
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_modules_outside_of_the_folder_are_refused(write):
    for path in ("/elsewhere", "../other"):
        files = {"modules.json": [{"type": MODULE, "path": path}]}
        with pytest.raises(UserError, match="which is not in its folder"):
            albert.load(write(files))
