"""The settings of a pretraining in phases."""

from __future__ import annotations

import pytest

from albert.core.errors import FlagError, UserError
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from albert.training.output_folder import check_output_dir
from tests.helpers.files import settings_of


@pytest.fixture
def phases(tmp_path):
    """Returns the settings of two phases, whose second file has some more flags."""

    def phases(flags: str = "", *given: str) -> list[PretrainingSettings]:
        for number, length in ((1, 128), (2, 512)):
            lines = f"--max_seq_length={length}\n--learning_rate=0.00{number}\n"
            (tmp_path / f"{number}").write_text(lines + flags * (number == 2))
        always = f"--phases={tmp_path}/1,{tmp_path}/2", f"--output_dir={tmp_path}/out"
        always += ("--input_file={max_seq_length}/train-*",)
        settings = settings_of(PretrainingSettings, *always, "--init_checkpoint=model", *given)
        return list(settings.runs().values())

    return phases


def test_a_phase_has_its_own_flags_and_follows_the_one_before(phases):
    one, two = phases("", "--learning_rate=0.5")
    assert (one.max_seq_length, two.max_seq_length) == (128, 512)
    assert (one.input_file, two.input_file) == ("128/train-*", "512/train-*")
    assert one.learning_rate == two.learning_rate == 0.5, "the command wins"
    assert (one.init_checkpoint, two.init_checkpoint) == ("model", "")
    assert (one.follows, two.follows) == ("", one.output_dir)


@pytest.mark.parametrize(
    ("flags", "given", "message"),
    [
        ("--output_dir=other", (), "2 has --output_dir, which all phases share"),
        ("--albert_config_file=other", (), "2 has --albert_config_file, which all phases share"),
        ("--no_such_flag=1", (), "2: --no_such_flag is not a flag"),
        ("word", (), "2 is not a file of flags: 'word' is not a flag"),
        ("", ("--nodo_train",), "--phases trains"),
    ],
)
def test_wrong_flags_are_named(phases, flags, given, message):
    with pytest.raises(FlagError, match=message):
        phases(flags, *given)


def test_a_missing_file_and_the_folder_of_another_run_are_named(phases, tmp_path):
    with pytest.raises(UserError, match="none"):
        phases("", f"--phases={tmp_path}/1,{tmp_path}/none")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/run.json").touch()
    with pytest.raises(FlagError, match="holds a run without --phases"):
        phases()


def test_a_phase_that_was_begun_needs_the_checkpoint_of_the_one_before(phases, tmp_path):
    (tmp_path / "out/phase_2").mkdir(parents=True)
    (tmp_path / "out/phase_2/run.json").write_text('{"settings": {"init_checkpoint": "sha256:1"}}')
    _, two = phases()
    with pytest.raises(
        UserError, match="out/phase_1, whose newest checkpoint is no longer the one"
    ):
        check_output_dir(two, {"seed": 1})
    check_output_dir(two.replaced(overwrite_output_dir=True), {"seed": 1})


def test_a_run_without_phases_is_not_among_them(phases, tmp_path):
    (tmp_path / "out/phase_1").mkdir(parents=True)
    (tmp_path / "out/phase_1/run.json").touch()
    flags = f"--output_dir={tmp_path}/out", "--input_file=records"
    with pytest.raises(FlagError, match="out holds the phases of a run with --phases"):
        PretrainingTask(settings_of(PretrainingSettings, *flags))
