"""--model: the files and the tokenizer's flags that a model gives to a program."""

import json
import os
import shutil

import pytest

from albert.checkpoints.model_flags import with_model
from albert.core.errors import FlagError
from albert.settings.text_settings import TextSettings

OPTIONS = {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}


@pytest.fixture
def folder(transformers_folder, tmp_path):
    path = transformers_folder()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(OPTIONS))
    return path


def test_a_folder_of_transformers_gives_its_files_and_its_tokenizers_flags(folder):
    expected = {"albert_config_file": "config.json", "vocab_file": "vocab.txt"}
    expected = {flag: os.path.join(folder, name) for flag, name in expected.items()}
    expected |= {"init_checkpoint": folder, **OPTIONS}
    for given in ({}, {**expected, "seed": 1}):
        settings = with_model(TextSettings.of(model=folder, **given))
        assert {name: getattr(settings, name) for name in expected} == expected
        assert settings.given >= expected.keys() and settings.spm_model_file is None
    # As the initial checkpoint, it only determines how the tokenizer changes text.
    settings = with_model(TextSettings.of(init_checkpoint=folder))
    assert {name: getattr(settings, name) for name in OPTIONS} == OPTIONS
    assert settings.vocab_file is None and with_model(TextSettings()).given == frozenset()


def test_a_run_and_a_published_checkpoint_give_theirs(trained, squad_dir, tmp_path):
    settings = with_model(TextSettings.of(model=str(trained)))
    assert settings.init_checkpoint == str(trained / "model.ckpt-best")
    assert settings.spm_model_file == str(trained / "assets.extra/spm.model")
    assert settings.albert_config_file == str(trained / "assets.extra/config.json")
    for file in trained.glob("model.ckpt-best.*"):
        shutil.copy(file, tmp_path)
    for file, name in {"albert.json": "albert_config.json", "spm.model": "30k.model"}.items():
        shutil.copy(squad_dir / file, tmp_path / name)
    settings = with_model(TextSettings.of(model=str(tmp_path)))
    assert settings.init_checkpoint == str(tmp_path)
    assert settings.spm_model_file == str(tmp_path / "30k.model")


@pytest.mark.parametrize("source", ["model", "init_checkpoint"])
def test_equal_settings_do_not_contradict_each_other(transformers_folder, tmp_path, source):
    """Without its own value, removing accents follows the case."""
    path = transformers_folder()
    for lower in (True, False):
        for own in ({}, {"strip_accents": None}, {"strip_accents": lower}):
            options = {"do_lower_case": lower, **own}
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
            for given in (None, lower):
                flags = {"do_lower_case": lower, "strip_accents": given}
                with_model(TextSettings.of(**{source: path}, **flags))
    flags["strip_accents"] = True
    with pytest.raises(FlagError, match="strip_accents=true contradicts"):
        with_model(TextSettings.of(**{source: path}, **flags))


@pytest.mark.parametrize(
    ("source", "flag", "value", "its"),
    [
        ("model", "do_lower_case", False, "--do_lower_case=true"),
        ("init_checkpoint", "strip_accents", True, "--strip_accents=false"),
        ("model", "vocab_file", "other.txt", "--vocab_file=.*/vocab.txt"),
        ("model", "spm_model_file", "other.txt", "no --spm_model_file"),
        ("model", "albert_config_file", "other.txt", "--albert_config_file=.*/config.json"),
        ("model", "init_checkpoint", "other", "--init_checkpoint=.*"),
    ],
)
def test_a_flag_that_contradicts_the_model_is_an_error(folder, tmp_path, source, flag, value, its):
    path = value if isinstance(value, bool) else str(tmp_path / value)
    if value == "other":
        shutil.copytree(folder, path)
    elif not isinstance(value, bool):
        (tmp_path / value).write_text("[UNK]\n")
    message = rf"--{flag}=.* contradicts --{source}=.*, which has {its}; remove one"
    with pytest.raises(FlagError, match=message):
        with_model(TextSettings.of(**{source: folder, flag: path}))
