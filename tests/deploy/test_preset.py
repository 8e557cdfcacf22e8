"""deploy/preset.sh: its command for every preset; and all scripts under shellcheck."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.helpers.files import defaults_of, fill, write_files
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tools.near import tracked

SCRIPT = ROOT / "deploy" / "preset.sh"
BASE = "albert_base_v2"
# Pretraining has no pretrained model, and its records are in a folder for each length.
PRETRAININGS = {"pretrain_albert_base": "512", "pretrain_bert_large_phase_1": "128"}
FINE_TUNINGS = sorted(p.stem for p in ROOT.glob("configs/*.flags") if "pretrain_" not in p.stem)
# What a name begins with, the program, and the data it gets.
PROGRAMS = {
    "squad_v1.1": ("run_squad_v1", ["train_file", "predict_file"]),
    "squad_v2.0": ("run_squad_v2", ["train_file", "predict_file"]),
    "glue_": ("run_classifier", ["data_dir", "do_train", "do_eval"]),
}


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    """Returns a data folder with a space in its name."""
    folder = tmp_path / "the data"
    fill(folder)
    return folder


@pytest.fixture
def start(data, tmp_path):
    write_files(tmp_path, {"python": '#!/bin/sh\nprintf "%s\\n" "$@"\n'})

    def start(preset: str, *flags: str, model: str = BASE, script=SCRIPT):
        return run([str(script), preset, model, str(data), f"{tmp_path}/python", *flags])

    return start


flags_of = functools.cache(defaults_of)


@pytest.mark.parametrize("preset", FINE_TUNINGS)
def test_every_preset_is_a_command_of_its_program(preset, start, data):
    result = start(preset, "--output_dir=a b")
    assert result.returncode == 0, result.stderr
    program, flagfile, *given, last = result.stdout.splitlines()
    ((name, of_data),) = (p for kind, p in PROGRAMS.items() if preset.startswith(kind))
    assert (program, last) == (str(ROOT / f"{name}.py"), "--output_dir=a b")
    assert flagfile == f"--flagfile={ROOT / 'configs' / preset}.flags"
    values = {flag.removeprefix("--").split("=")[0]: flag.partition("=")[2] for flag in given}
    of_model = ["albert_config_file", "spm_model_file", "init_checkpoint"]
    assert list(values) == of_model + of_data
    assert values.keys() <= flags_of(name).keys()
    for path in filter(None, values.values()):
        assert path.startswith(f"{data}/")
        assert os.path.exists(path) or os.path.exists(f"{path}.index"), path


@pytest.mark.parametrize(("preset", "length"), PRETRAININGS.items())
def test_a_pretraining_gets_its_records_and_no_model(preset, length, start, data):
    result = start(preset, model="none")
    assert "pretraining: no such folder; make the records" in result.stderr
    (data / "pretraining").mkdir()
    program, *given = start(preset, "--output_dir=out", model="none").stdout.splitlines()
    assert program == str(ROOT / "albert")
    files = (f"{data}/pretraining/{length}/{part}-*" for part in ("train", "dev"))
    expected = [f"--{n}_file={file}" for n, file in zip(("input", "eval"), files, strict=True)]
    flagfile = f"--flagfile={ROOT / 'configs' / preset}.flags"
    assert given == ["pretrain", flagfile, *expected, "--output_dir=out"]
    result = start("pretrain_bert_large_phase_2", model="none")
    assert "add --init_checkpoint=FILE, the last checkpoint of phase 1" in result.stderr


def test_models_with_a_wordpiece_vocabulary_get_it(start, data):
    for model, *files in (
        ("bert_base", "bert_config.json", "vocab.txt", "bert_model.ckpt"),
        ("albert_base_zh", "albert_config.json", "vocab_chinese.txt", "model.ckpt-best"),
    ):
        names = ("albert_config_file", "vocab_file", "init_checkpoint")
        expected = [f"--{n}={data}/{model}/{file}" for n, file in zip(names, files, strict=True)]
        assert start("squad_v1.1", model=model).stdout.splitlines()[2:5] == expected


def test_added_presets_run_if_their_name_tells_the_program(start, data, tmp_path):
    project = tmp_path / "project"
    for folder in ("configs", "deploy"):
        shutil.copytree(ROOT / folder, project / folder)
    for name in ("race_xxlarge", "other"):
        (project / "configs" / f"{name}.flags").touch()
    script = project / "deploy" / "preset.sh"
    program, _, *flags = start("race_xxlarge", script=script).stdout.splitlines()
    assert program == f"{project}/run_race.py"
    assert flags[3:] == [f"--data_dir={data}", "--do_train", "--do_eval"]
    assert {flag.removeprefix("--").split("=")[0] for flag in flags} <= flags_of("run_race").keys()
    result = start("other", script=script)
    assert result.returncode == 1
    names = "squad_v1.1, squad_v2.0, glue_, race or pretrain_"
    assert f"other: the name must begin with {names}" in result.stderr


def test_the_program_replaces_the_script(data, tmp_path):
    """So that a launcher's signals arrive."""
    write_files(tmp_path, {"python": "#!/bin/sh\necho $$\nexit 9\n"})
    command = [str(SCRIPT), "glue_mrpc", "bert_base", str(data), f"{tmp_path}/python"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert int(process.stdout.read()) == process.pid
    assert process.returncode == 9


@pytest.mark.parametrize(
    ("preset", "model", "missing", "message"),
    [
        ("squad", BASE, None, "squad: no such preset; choose one of glue_cola glue_mnli "),
        ("*", BASE, None, "*: no such preset"),
        ("squad_v1.1", "albert", None, "the data/albert: no such folder; download it"),
        ("squad_v1.1", BASE, "squad", "the data/squad: no such folder"),
        ("glue_mrpc", BASE, "glue", "the data/glue: no such folder"),
        ("squad_v1.1", "bert_base", "bert_base/vocab.txt", "no vocabulary; it needs one of 30k-cl"),
        ("squad_v1.1", BASE, f"{BASE}/model.ckpt-best.index", "no checkpoint; it needs one of mod"),
    ],
)
def test_a_missing_input_is_one_line(start, data, preset, model, missing, message):
    if missing:
        (shutil.rmtree if (data / missing).is_dir() else os.remove)(data / missing)
    result = start(preset, model=model)
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(r"preset\.sh: error: .*\n", result.stderr)
    assert message in result.stderr


def test_too_few_arguments_show_the_usage():
    result = run([str(SCRIPT), "squad_v1.1"])
    assert result.returncode == 1
    assert re.fullmatch(".*: error: give PRESET MODEL DATA PYTHON.*\n", result.stderr)


# Where requirements/dev.txt installs shellcheck, or the system has it.
PATH = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.skipif(not shutil.which("shellcheck", path=PATH), reason="make install-dev has it")
@pytest.mark.slow
def test_shellcheck_finds_nothing():
    scripts = tracked("*.sh", "*.sbatch", ".ci/run")
    assert {"deploy/mpirun.sh", "deploy/preset.sh", "deploy/slurm/squad.sbatch"} <= set(scripts)
    result = run([shutil.which("shellcheck", path=PATH), *scripts], cwd=ROOT)
    assert result.returncode == 0, result.stdout
