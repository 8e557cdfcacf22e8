"""RACE under the flags."""

from albert.tasks.race.settings import RaceSettings
from albert.tasks.race.task import RaceTask
from tests.helpers.files import settings_of


def test_flags_reach_the_task_and_its_description(squad_dir, tmp_path):
    def make(*flags: str) -> RaceTask:
        model = f"--albert_config_file={squad_dir}/albert.json"
        own = model, f"--spm_model_file={squad_dir}/spm.model", "--max_qa_length=8", "--do_train"
        folders = f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'out'}"
        lengths = "--max_seq_length=32", "--dropout_prob=0.25"
        return RaceTask(settings_of(RaceSettings, *own, *folders, *lengths, *flags))

    assert make().dropout == 0.25
    assert make("--deterministic_run").dropout == 0.0
    # A flag overrides the default.
    steps = make("--warmup_proportion=0.5", "--train_steps=10").steps(num_examples=40)
    assert make().settings.warmup_step > 0 and steps == (10, 5)
    described = make().assets().description
    assert described["max_seq_length"] == 32 and described["max_qa_length"] == 8
