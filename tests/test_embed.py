"""`albert embed`: embeddings equal the model's own outputs, in either format."""

import json
import shutil

import numpy as np
import pytest

from albert.cli import embed
from albert.cli.embed import EmbedSettings
from albert.core.errors import UserError
from albert.inference.embedding import Embedder
from albert.inference.folders import open_folder
from albert.modeling import AlbertConfig
from albert.tokenization import FullTokenizer
from tests.helpers.checkpoints import weights
from tests.helpers.encoders import numpy_encode
from tests.helpers.files import settings_of
from tests.helpers.running import albert, run
from tests.helpers.tiny_runs import MODEL

LINES = ["One word and another one.", "A first text ||| a second", "", "x", "in Ein Text " * 40]
LAYERS = (-1, 0, -2)


@pytest.fixture(scope="module")
def inputs(squad_dir) -> list[tuple]:
    """Returns the model's inputs for each line, by hand: tokens, their ids, and their segments."""
    tokenizer = FullTokenizer(None, True, str(squad_dir / "spm.model"))
    rows = []
    for line in LINES:
        texts = [tokenizer.tokenize(text.strip().lower()) for text in line.split("|||")]
        parts = [[p if p in tokenizer.vocab else "<unk>" for p in pieces] for pieces in texts]
        parts = [["[CLS]", *parts[0][: 64 - 2], "[SEP]"], *([*part, "[SEP]"] for part in parts[1:])]
        tokens = [token for part in parts for token in part]
        kinds = [kind for kind, part in enumerate(parts) for _ in part]
        rows.append((tokens, tokenizer.convert_tokens_to_ids(tokens), kinds))
    return rows


@pytest.fixture(scope="module")
def outputs(trained, squad_dir, inputs) -> list[tuple]:
    """Returns the states [tokens, H] of all layers and the pooled output [H], by NumPy."""
    config = AlbertConfig.from_json_file(str(squad_dir / "albert.json"))
    values, rows = weights(trained, "model.ckpt-best"), []
    for _, *line in inputs:
        ids, kinds = (np.array([numbers]) for numbers in line)
        _, layers, (pooled,) = numpy_encode(config, values, ids, np.ones_like(ids), kinds)
        rows.append(([states for (states,) in layers], pooled))
    return rows


@pytest.fixture(scope="module")
def files(trained, exported, squad_dir, tmp_path_factory):
    """Writes JSON from a model folder, and npz from a checkpoint and its files."""
    folder = tmp_path_factory.mktemp("embeddings")
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8-sig")
    (folder / "latin-1.txt").write_bytes(b"a\nb\xe9\n")
    layers = f"--layers={','.join(map(str, LAYERS))}"
    common = [layers, "--pooled", "--max_seq_length=64", "--batch_size=2"]
    parts = [flag.format(squad=squad_dir) for flag in MODEL]
    parts += [f"--init_checkpoint={trained / 'model.ckpt-best'}"]
    parts += ["--pooling=mean", "--normalize"]
    whole = [f"--init_checkpoint={exported}", "--pooling=cls"]
    for name, flags in (("json", whole), ("out.npz", parts)):
        paths = [f"--input_file={folder / 'lines.txt'}", f"--output_file={folder / name}"]
        result = run([*albert("embed"), *common, *paths, *flags])
        assert result.returncode == 0, result.stderr
        assert f"Wrote the embeddings of 5 texts to {folder / name}" in result.stderr
    return folder


def test_json_has_googles_format(files, inputs, outputs):
    rows = [json.loads(line) for line in (files / "json").read_text().splitlines()]
    assert [row["linex_index"] for row in rows] == list(range(len(LINES)))
    for row, (tokens, _, _), (layers, pooled) in zip(rows, inputs, outputs, strict=True):
        assert [feature["token"] for feature in row["features"]] == tokens
        for position, feature in enumerate(row["features"]):
            assert [layer["index"] for layer in feature["layers"]] == list(LAYERS)
            for layer in feature["layers"]:
                values = layers[layer["index"]][position]
                np.testing.assert_allclose(layer["values"], values, atol=1e-5)
                assert all(round(value, 6) == value for value in layer["values"])
        np.testing.assert_allclose(row["pooled"], pooled, atol=1e-5)
        np.testing.assert_allclose(row["sentence"], layers[-1][0], atol=1e-5)


def test_npz_has_the_layers_of_all_texts(files, inputs, outputs):
    with np.load(files / "out.npz") as arrays:
        vectors = "pooled", "sentence"
        assert set(arrays) == {"tokens", "lengths", *vectors, *(f"layer_{n}" for n in LAYERS)}
        assert arrays["lengths"].tolist() == [len(tokens) for tokens, _, _ in inputs]
        assert arrays["tokens"].tolist() == [t for tokens, _, _ in inputs for t in tokens]
        for layer in LAYERS:
            values = np.concatenate([layers[layer] for layers, _ in outputs])
            np.testing.assert_allclose(arrays[f"layer_{layer}"], values, atol=1e-5)
        pooled = [pooled for _, pooled in outputs]
        np.testing.assert_allclose(arrays["pooled"], pooled, atol=1e-5)
        means = np.array([layers[-1].mean(axis=0) for layers, _ in outputs])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        np.testing.assert_allclose(arrays["sentence"], means, atol=1e-5)


@pytest.mark.parametrize("source", ["model", "init_checkpoint"])
def test_a_cased_model_keeps_capitals(trained, squad_dir, tmp_path, source):
    """The folder of a published model does not say that it is cased."""
    (tmp_path / "lines").write_text("Anna anna")
    # Without the record of its run, which has another case.
    for file in trained.glob("model.ckpt-best.*"):
        shutil.copy(file, tmp_path)
    files = [f"--input_file={tmp_path}/lines", f"--output_file={tmp_path}/out", "--layers=-1"]
    files += ["--do_lower_case=false"]
    if source == "model":
        shutil.copy(squad_dir / "albert.json", tmp_path / "albert_config.json")
        shutil.copy(squad_dir / "spm.model", tmp_path / "30k-clean.model")
        files += [f"--model={tmp_path}"]
    else:
        files += [f"--init_checkpoint={tmp_path}/model.ckpt-best"]
        files += [flag.format(squad=squad_dir) for flag in MODEL]
    embed.main(settings_of(EmbedSettings, *files))
    (row,) = (tmp_path / "out").read_text().splitlines()
    tokens = [feature["token"] for feature in json.loads(row)["features"]]
    # No piece has a capital, so the letter is unknown, as is its replacement.
    tokenizer = FullTokenizer(None, False, str(squad_dir / "spm.model"))
    expected = ["[CLS]", *tokenizer.tokenize("Anna anna"), "[SEP]"]
    assert "A" in "".join(expected) and tokens == ["<unk>" if "A" in t else t for t in expected]
    assert tokens.count("<unk>") == 1


def test_batches_of_any_size_give_the_same(exported, monkeypatch):
    pairs, folder = [("word " * (7 * n % 11), "") for n in range(9)], open_folder(str(exported))
    embedder = Embedder(folder, [-1], False)
    together, (alone,) = list(embedder.embed(pairs)), embedder.embed(pairs[1][0])
    assert alone.tokens == together[1].tokens
    monkeypatch.setattr("albert.inference.embedding.MOST_WAITING", 1)
    for batch_size in (1, 4):
        one_by_one = Embedder(folder, [-1], False, batch_size).embed(pairs)
        for one, expected in zip(one_by_one, together, strict=True):
            assert one.tokens == expected.tokens and one.pooled is None
            np.testing.assert_allclose(one.layers[-1], expected.layers[-1], atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "code", "part"),
    [
        (["--input_file="], 2, "--input_file is required"),
        (["--input_file={files}/latin-1.txt", "--layers=-1"], 1, "line 2: byte 2 of the line"),
        (["--layers=-1,x"], 2, "--layers=-1,x must be numbers"),
        (["--layers=-1,-1"], 2, "--layers=-1,-1 names a layer twice"),
        (["--layers="], 2, "nothing to write: pass --layers, --pooled or --pooling"),
        (["--normalize"], 2, "--normalize needs --pooling"),
        (["--layers=2"], 2, "there is no layer 2: the model has 2"),
        (["--layers=-3"], 2, "there is no layer -3: the model has 2"),
        (["--max_seq_length=129"], 2, "--max_seq_length 129 is more than the model's 128 pos"),
        (["--init_checkpoint=none"], 1, "none does not exist"),
        (["--albert_config_file=none"], 2, "--spm_model_file or --vocab_file is required"),
        (["--vocab_file=vocab.txt"], 2, ", which has no --vocab_file; remove one"),
        (["--do_lower_case=false"], 2, "--do_lower_case=false contradicts --init_checkpoint="),
        (["--output_file={files}/lines.txt"], 2, "--output_file would replace --input_file"),
    ],
)
def test_a_bad_input_is_an_error(exported, files, flags, code, part, tmp_path):
    valid = f"--input_file={files / 'lines.txt'}", f"--init_checkpoint={exported}"
    flags = [f"--output_file={tmp_path / 'out'}", *(flag.format(files=files) for flag in flags)]
    with pytest.raises(UserError) as caught:
        embed.main(settings_of(EmbedSettings, *valid, *flags))
    assert part in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.exit_code == code
    assert list(tmp_path.iterdir()) == []
