"""A prediction uses the trained model's settings, or ends and names the difference."""

import json
import shutil

import pytest

from albert.core.errors import FlagError, UserError
from albert.inference import load_model
from albert.tasks.squad.settings import SquadV1Settings, SquadV2Settings
from albert.tasks.squad.task import SquadV1Task, SquadV2Task
from albert.training.output_folder import check_weights
from tests.helpers.files import settings_of
from tests.helpers.running import succeed
from tests.helpers.squad import squad_command, train_tokenizer


@pytest.fixture
def config(squad_dir, tmp_path):
    """Writes a configuration with other values; returns its flag."""

    def write(**values) -> str:
        content = {**json.loads((squad_dir / "albert.json").read_text()), **values}
        (tmp_path / "config.json").write_text(json.dumps(content))
        return f"--albert_config_file={tmp_path}/config.json"

    return write


@pytest.fixture
def check(squad_dir, trained):
    def check(*flags: str, task=SquadV1Task) -> None:
        kind = SquadV1Settings if task is SquadV1Task else SquadV2Settings
        command = squad_command(squad_dir, trained, "--do_train=false", *flags)
        check_weights(task(settings_of(kind, *command[2:])))

    return check


def test_other_dropout_lengths_and_n_best_fit_the_same_model(check, config):
    check()
    flag = config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.3, initializer_range=0.1)
    check(flag, "--max_seq_length=48", "--n_best_size=1")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        # Also if prediction uses the weights from another folder.
        (
            "--albert_config_file={tmp}/config.json --output_dir={tmp}/new "
            "--init_checkpoint={trained}/model.ckpt-best",
            "--init_checkpoint .* was trained with hidden_act gelu, not the relu of --albert_conf",
        ),
        # ALBERT's weights fit any number of layers; prediction and training refuse another one.
        (
            "--albert_config_file={tmp}/deep.json",
            "--output_dir .* was trained with num_hidden_layers 2, not the 3 of --albert_config_",
        ),
        (
            "--albert_config_file={tmp}/deep.json --do_train=true --output_dir={tmp}/new "
            "--init_checkpoint={trained}/model.ckpt-best",
            "--init_checkpoint .* was trained with num_hidden_layers 2, not the 3 of --albert",
        ),
        ("--bert_config_file={squad}/bert.json", "was trained with an ALBERT, not a BERT"),
        (
            "--spm_model_file={tmp}/other.model",
            "another --spm_model_file than this --spm_model_file",
        ),
        (
            "--spm_model_file= --vocab_file={squad}/vocab.txt",
            "another --spm_model_file than this --vocab_file",
        ),
        ("--do_lower_case=false", "--do_lower_case True, not False"),
    ],
)
def test_another_model_is_refused(check, config, squad_dir, trained, tmp_path, flags, message):
    config(num_hidden_layers=3)
    (tmp_path / "config.json").rename(tmp_path / "deep.json")
    config(hidden_act="relu")
    train_tokenizer(squad_dir / "text.txt", tmp_path / "other", 200, "bpe")
    flags = flags.format(squad=squad_dir, trained=trained, tmp=tmp_path)
    with pytest.raises(FlagError, match=message):
        check(*flags.split())


def test_another_task_can_only_be_trained(check, trained, tmp_path):
    with pytest.raises(FlagError, match=r"task squad-1\.1, not squad-2\.0"):
        check(task=SquadV2Task)
    initial = f"--init_checkpoint={trained}/model.ckpt-best"
    check(f"--output_dir={tmp_path / 'new'}", initial, "--do_train=true", task=SquadV2Task)


def test_a_folder_without_a_record_is_accepted(check, config, trained, tmp_path, log):
    for path in trained.glob("model.ckpt-best.*"):
        shutil.copy(path, tmp_path)
    flags = f"--output_dir={tmp_path / 'new'}", f"--init_checkpoint={tmp_path}/model.ckpt-best"
    check(*flags, config(num_hidden_layers=3))
    assert sum("model.ckpt-best has no run.json" in line for line in log()) == 1


def test_the_trained_models_description_stays(squad_dir, trained, tmp_path):
    """A prediction with other lengths leaves it unchanged, and an export copies it."""
    out = shutil.copytree(trained, tmp_path / "out")
    described = (out / "assets.extra/model.json").read_bytes()
    other = "--n_best_size=1", "--max_answer_length=2", "--max_seq_length=48", "--doc_stride=8"
    flags = "--do_train=false", f"--export_dir={tmp_path / 'exported'}"
    succeed(squad_command(squad_dir, out, *flags, *other))
    assert (out / "assets.extra/model.json").read_bytes() == described
    (exported,) = (tmp_path / "exported").glob("saved_model/*/assets.extra/model.json")
    assert json.loads(exported.read_bytes()) == json.loads(described)


def test_a_description_contradicting_the_record_is_an_error(trained, tmp_path):
    for file, change, part in (
        ("config.json", {"num_hidden_layers": 3}, "num_hidden_layers 2, not the 3"),
        ("model.json", {"do_lower_case": False}, "--do_lower_case True, not False"),
        ("model.json", {"task": "squad-2.0", "start_n_top": 5}, "task squad-1.1, not squad-2.0"),
    ):
        copy = shutil.copytree(trained, tmp_path / part)
        path = copy / "assets.extra" / file
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        with pytest.raises(UserError, match=f"assets.extra contradicts run.json.*{part}"):
            load_model(str(copy))
