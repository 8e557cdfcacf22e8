"""The reference's names that code written for it may import; see also docs/differences.md."""

import importlib
import inspect
import os
import re
import sys

import pytest
import tensorflow.compat.v1 as tf

from albert import classifier_utils, fine_tuning_utils, lamb_optimizer, optimization, tokenization
from tests.helpers.forking import ROOT
from tests.helpers.golden import GOLDEN
from tests.helpers.running import succeed
from tests.helpers.squad_head import CONFIG

# Arguments and defaults; this project may have more, keyword-only.
SIGNATURES = (GOLDEN.folder / "signatures.txt").read_text()
OTHERS = {
    "squad_utils": {"InputFeatures", "RawResult", "RawResultV2", "SquadExample"},
    "classifier_utils": {
        "PaddingInputExample",
        *("MnliProcessor", "MisMnliProcessor", "MrpcProcessor", "ColaProcessor", "Sst2Processor"),
        *("StsbProcessor", "QqpProcessor", "QnliProcessor", "RteProcessor", "WnliProcessor"),
        "AXProcessor",
    },
}


def signatures():
    for section in re.split(r"^(?=\w)", SIGNATURES, flags=re.MULTILINE):
        module, _, text = section.partition(":")
        for name, arguments in re.findall(r"(\w+)\((.*?)\)$", text, re.DOTALL | re.MULTILINE):
            yield module, name, " ".join(arguments.split())


@pytest.mark.parametrize(("module", "name", "arguments"), signatures())
def test_arguments_are_the_references(module, name, arguments):
    function = getattr(importlib.import_module(module), name)
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    text = ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in positional
    )
    assert text == arguments
    for other in parameters:
        is_optional = other.kind is other.KEYWORD_ONLY and other.default is not other.empty
        assert other in positional or is_optional or other.kind is other.VAR_KEYWORD


def test_every_name_is_exported():
    for module in ("squad_utils", "classifier_utils", "race_utils", "lamb_optimizer"):
        names = {name for owner, name, _ in signatures() if owner == module}
        exported = {name for name in dir(importlib.import_module(module)) if name[0] != "_"}
        assert exported == names | OTHERS.get(module, set())
    for name in OTHERS["classifier_utils"] - {"PaddingInputExample"}:
        processor = getattr(classifier_utils, name)(use_spm=True, do_lower_case=True)
        for part in ("train", "dev", "test"):
            method = getattr(processor, f"get_{part}_examples")
            assert list(inspect.signature(method).parameters) == ["data_dir"]
        assert isinstance(processor, classifier_utils.DataProcessor)
        assert isinstance(processor.get_labels(), list)


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [("use_tpu", True, "TPU"), ("hub_module", "hub", "not supported; pass init_checkpoint")],
)
def test_tpu_and_hub_modules_are_refused(argument, value, words):
    """Through every function to which the reference passes them."""
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.zeros([1, 8], tf.int32))
    usable, refusing = {"albert_config": CONFIG, "num_labels": 4, **ids}, 0
    for module, name, arguments in signatures():
        names = [text.partition("=")[0] for text in arguments.split(", ")]
        if argument in names:
            values = {**dict.fromkeys(names), **usable, argument: value}
            with pytest.raises(ValueError, match=words):
                getattr(importlib.import_module(module), name)(*map(values.get, names))
            refusing += 1
    assert refusing > 5


def test_optimizer_and_tokenizer_are_those_of_the_programs(squad_dir):
    assert lamb_optimizer.LAMBOptimizer is optimization.LAMBOptimizer
    path = str(squad_dir / "spm.model")
    tokenizer = fine_tuning_utils.create_vocab(None, True, path, None)
    expected = tokenization.FullTokenizer(None, True, path)
    assert tokenizer.tokenize("what comes after") == expected.tokenize("what comes after")
    assert tokenizer.vocab == expected.vocab


# One program is enough: those of a process share its flags.
ROOT_NAMES = ["run_race"]
ROOT_NAMES += sorted(
    p.stem
    for p in ROOT.glob("*.py")
    if (ROOT / "albert" / p.name).exists() and "__main__" not in p.read_text()
)


@pytest.mark.parametrize(
    ("first", "in_root"), [("", True), pytest.param("albert.", False, marks=pytest.mark.slow)]
)
def test_a_root_name_is_the_packages_module(first, in_root, tmp_path):
    """In either order of import: patches, private names and graph collections are shared."""
    assert len(ROOT_NAMES) == 9
    text = f"import importlib\nfor name in {ROOT_NAMES}:\n"
    text += f"    one = importlib.import_module({first!r} + name)\n"
    text += "    exec(f'import {name} as of_root; from albert import {name} as of_package')\n"
    text += "    assert one is of_root is of_package, name\n"
    environment = {**os.environ, "PYTHONPATH": "" if in_root else str(ROOT)}
    succeed([sys.executable, "-c", text], cwd=ROOT if in_root else tmp_path, env=environment)
