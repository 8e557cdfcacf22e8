"""Quantization: the search for the products in int8, and the model that it writes."""

import importlib.util
import json
import os
import pathlib
import sys

import pytest

import albert
from albert.checkpoints import transformers_names as names
from albert.checkpoints.model_folder import quantized_encoder
from albert.cli import embed, quantize
from albert.convert.convert import from_transformers, to_transformers
from albert.convert.settings import ConvertSettings
from albert.core.errors import UserError
from albert.inference import load_model
from albert.quantization.search import GROUPS, Scored, Trial
from albert.settings.engines import OPENVINO, TENSORFLOW
from tests.helpers.files import settings_of
from tests.helpers.forking import ROOT
from tests.helpers.running import run as run_process

QUESTION, TEXT = "How long is it?", "The bridge was ready in 1859. It is 20 m long."


def run(model, target, data, *flags):
    settings = settings_of(quantize.QuantizeSettings, f"--data={data}", *flags)
    quantize.main((settings, [str(model), str(target)]))


@pytest.mark.slow
def test_a_quantized_model_answers_with_openvino_only(trained, squad_dir, tmp_path, capsys):
    pytest.importorskip("nncf", reason="need NNCF, which is not for NumPy 2.5")
    target = tmp_path / "new" / "int8"
    run(trained, target, squad_dir / "dev-v1.1.json", "--max_loss=100")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    scores = json.loads((trained / "eval_results.json").read_text())
    assert rows[0] == ["products", "in", "f1", "loss", "speed"]
    assert rows[1] == ["float32", f"{scores['f1']:.2f}", "0.00", "1.00"] and rows[-1][0] == "int8"
    assert sorted(os.listdir(target.parent)) == ["int8"]
    exact = load_model(str(trained), OPENVINO, "float32").answer(QUESTION, [TEXT])
    quantized = load_model(str(target), OPENVINO, "float32")
    assert quantized.folder.encoder_precision == "int8"
    rounded = quantized.answer(QUESTION, [TEXT])
    first, second = (result.answers[0].probability for result in (exact, rounded))
    assert first != second and first == pytest.approx(second, abs=0.1)
    check_float32_is_refused(target, squad_dir, tmp_path)
    with pytest.raises(UserError, match="exists; pass a new folder"):
        run(trained, target, squad_dir / "dev-v1.1.json")
    encoder = pathlib.Path(quantized_encoder(str(target)))
    for content, message in (
        (
            encoder.read_text().replace("sha256:", "sha256:0"),
            "is not the encoder of the weights in its folder",
        ),
        ("<net", "cannot be read by OpenVINO .*: quantize the"),
    ):
        encoder.write_text(content)
        with pytest.raises(UserError, match=f"encoder.xml {message}"):
            load_model(str(target), OPENVINO)
    encoder.unlink()
    os.mkfifo(encoder)
    with pytest.raises(UserError, match="encoder.xml is not a regular file"):
        load_model(str(target), OPENVINO)


def check_float32_is_refused(folder, data, tmp_path):
    """In all that would compute with the weights instead of the encoder in int8."""
    path, lines = str(folder), tmp_path / "lines"
    lines.write_text("A line.\n")
    flags = {"predict_file": str(data / "dev-v1.1.json"), "verbose": False}
    embed_flags = f"--model={path}", f"--input_file={lines}", f"--output_file={tmp_path / 'out'}"
    embedding = settings_of(embed.EmbedSettings, *embed_flags, "--max_seq_length=32")
    for call in (
        lambda: load_model(path, TENSORFLOW),
        lambda: albert.evaluate(path, engine=TENSORFLOW, **flags),
        lambda: albert.evaluate(path, engine=OPENVINO, export_dir=str(tmp_path / "e"), **flags),
        lambda: albert.train("squad", tmp_path / "run", data=flags["predict_file"], model=path),
        lambda: to_transformers(path, str(tmp_path / "tf"), ConvertSettings()),
        lambda: embed.main(embedding),
    ):
        with pytest.raises(UserError, match="int8, with which only --engine=openvino computes"):
            call()


@pytest.mark.parametrize("converted", [False, True])
def test_a_model_of_transformers_is_scored_for_its_quantization(
    transformers_folder, tmp_path, converted
):
    labels = {"id2label": {"0": "yes", "1": "no"}}
    path = transformers_folder(names.CLASSIFIER, **labels)
    if converted:
        from_transformers(path, path := str(tmp_path / "converted"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dev.tsv").write_text("text_a\tlabel\none two\tyes\nthree\tno\n")
    trial = Trial(path, str(tmp_path), str(tmp_path / "data"), 0.5)
    trial._speed = lambda precision: 1.0
    model = load_model(path)
    right = [
        model.classify(text).label == label for text, label in (("one two", "yes"), ("three", "no"))
    ]
    assert trial._score("float32", "float32").score == 100 * sum(right) / 2


def test_leftovers_are_removed_and_an_existing_folder_is_kept(tmp_path, monkeypatch):
    target = tmp_path / "int8"
    for name in (".int8.abcd_123", ".other.abcd_123"):
        (tmp_path / name).mkdir()
    with quantize._workplace(str(target)) as work:
        assert sorted(os.listdir(tmp_path)) == sorted([".other.abcd_123", os.path.basename(work)])
    target.mkdir()
    with pytest.raises(UserError, match="int8 exists; pass a new folder"):
        quantize._workplace(str(target))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="^albert quantize: the package nncf is missing: run `pip"):
        run("model", target, "data")


@pytest.mark.slow
def test_openvino_and_nncf_send_no_usage_data(tmp_path):
    """In a separate process, because NNCF sends nothing where pytest is imported."""
    pytest.importorskip("nncf", reason="need NNCF, which is not for NumPy 2.5")
    text = """if True:
        import contextlib
        from albert.quantization.search import write_quantized
        with contextlib.suppress(AttributeError):
            write_quantized("encoder.xml", None)
        import nncf.telemetry
        print(type(nncf.telemetry.telemetry).__name__)
    """
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = run_process([sys.executable, "-c", text], cwd=ROOT, env=environment)
    assert done.stdout.split() == ["MagicMock"], done.stderr
    # Otherwise, each user gets a number, which is kept there.
    assert not (tmp_path / "intel").exists()


def test_the_groups_that_cost_most_stay_in_floating_point(monkeypatch):
    """Each is tried separately; then they are added, best first, until the loss is small."""
    gains, trial = dict(zip(GROUPS, (0.5, 3.0, 0.0, 2.0, 1.0), strict=True)), object.__new__(Trial)
    trial._max_loss = 0.6
    names = {}

    def quantized(kept):
        names[tuple(kept)] = row = Scored("int8", 84.0 + sum(gains[name] for name in kept), 2.0)
        return row

    monkeypatch.setattr(trial, "_quantized", quantized)
    monkeypatch.setattr(trial, "_score", lambda products, precision: Scored(products, 90.0, 1.0))
    assert trial.search()[-1].score == 90.0
    first, second, third, fourth, fifth = GROUPS
    separate = [(name,) for name in GROUPS]
    assert [*names] == [(), *separate, (second, fourth), (second, fourth, fifth)]


@pytest.mark.slow
def test_a_model_that_loses_too_much_is_not_written(monkeypatch, trained, squad_dir, tmp_path):
    rows = [Scored("float32", 90.0, 1.0), Scored("int8", 80.0, 2.0)]
    monkeypatch.setattr(Trial, "search", lambda self: rows)
    with pytest.raises(UserError, match="int8 loses more than 0.5 points, so .* is not written"):
        run(trained, tmp_path / "int8", squad_dir / "dev-v1.1.json")
    assert os.listdir(tmp_path) == []
