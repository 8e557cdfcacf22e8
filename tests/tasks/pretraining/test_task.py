"""Pretraining under the flags: its splits, its steps, and which files it reads."""

import json
import logging
import shutil
from unittest import mock

import pytest

from albert.core.errors import FlagError, UserError
from albert.tasks.pretraining import task as task_module
from albert.tasks.pretraining.input_pipeline import check_files
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from albert.training.plan import Steps
from albert.training.task_model import optimizer_options
from tests.helpers.files import settings_of
from tests.helpers.models import CONFIGS
from tests.helpers.running import simulated_workers
from tests.helpers.sessions import batches_of


@pytest.fixture
def make(files, tokenizer, tmp_path):
    config = tmp_path / "albert.json"
    sizes = {"vocab_size": tokenizer.size, "max_position_embeddings": 32}
    config.write_text(json.dumps({**CONFIGS["albert"], **sizes}))
    always = [f"--albert_config_file={config}", f"--input_file={files['masked']}"]
    always += [f"--output_dir={tmp_path / 'out'}", "--max_seq_length=32"]

    def make(*flags):
        own = *always, "--max_predictions_per_seq=4", *flags
        return PretrainingTask(settings_of(PretrainingSettings, *own))

    return make


@pytest.fixture
def other(files, tmp_path):
    return str(shutil.copy(files["masked"], tmp_path / "other"))


class TestSplits:
    @pytest.mark.parametrize(
        ("train", "evaluate", "eval_file", "expected"),
        [
            (True, True, False, ["train"]),
            (True, True, True, ["train", "other"]),
            (False, True, False, ["train"]),
            (False, True, True, ["other"]),
            (True, False, False, ["train"]),
        ],
    )
    def test_no_file_is_read_twice(self, make, files, other, train, evaluate, eval_file, expected):
        """Reading a large file takes minutes; this holds for a run and for `albert check`."""
        flags = [f"--eval_file={other}"] if eval_file else []
        task = make(f"--do_train={train}", f"--do_eval={evaluate}", *flags)
        paths = {"train": files["masked"], "other": other}
        for read in (lambda split: split.prepared(), lambda split: dict(split.describe())):
            with mock.patch.object(task_module, "check_files", wraps=check_files) as check:
                list(map(read, map(task.split, task.splits)))
            assert [call.args[0] for call in check.call_args_list] == [[paths[n]] for n in expected]

    def test_masks_are_drawn_in_training_within_a_budget(self, make, files, corpus):
        flags = f"--input_file={files['plain']}", f"--spm_model_file={corpus}/spm.model"
        data = make(*flags, "--masked_lm_budget=0.15").split("train").prepared()
        weights = batches_of(data.input_fn(8, 1, 0), 1)[0]["masked_lm_weights"]
        assert (weights.sum(axis=1) >= 1).all() and weights.shape == (8, 4)

    def test_scoring_is_limited_and_warns_on_the_training_file(self, make, files, other, log):
        flags = ("--do_eval", "--eval_batch_size=8")
        task = make(*flags, "--max_eval_steps=2")
        train, dev = (task.split(name).prepared() for name in ("train", "dev"))
        count = train.num_records
        assert [*task.split("train").describe()] == [("training records", f"{count} in 1 files")]
        assert count > 16 and train.num_examples == dev.num_examples == count
        assert train.max_batches is None
        assert (dev.num_records, dev.max_batches) == (16, 2)
        assert make(*flags, "--max_eval_steps=1000").split("dev").prepared().num_records == count
        for more, warnings in (
            ("", []),
            (f",{files['masked']}", [f"in both --input_file and --eval_file: {files['masked']}"]),
        ):
            make("--do_eval", f"--eval_file={other}{more}").split("dev").prepared()
            assert log(logging.WARNING) == warnings


@pytest.mark.parametrize(("workers", "expected"), [(1, (100, 30)), (8, (12, 3)), (200, (1, 0))])
def test_workers_divide_the_steps(make, workers, expected):
    steps = "--num_train_steps=100", "--num_warmup_steps=30", "--start_warmup_step=16"
    task = make(*steps, "--optimizer=lamb", "--poly_power=0.5")
    with simulated_workers(workers):
        options = optimizer_options(task.settings, task.steps(num_examples=12345))
    assert (options.num_train_steps, options.num_warmup_steps) == expected
    assert options.start_warmup_step == 16 // workers
    assert (options.optimizer, options.poly_power) == ("lamb", 0.5)
    assert task.num_groups == 0 and make("--init_from_group0").num_groups == 2


def test_the_loss_is_scaled_in_float16_only(make):
    for precision in ("float32", "bfloat16", "float16"):
        options = optimizer_options(make(f"--precision={precision}").settings, Steps(10, 1))
        assert options.scales_loss == (precision == "float16")


SPLIT = "--train_batch_size=4 --global_batch_size"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--do_train=false", "nothing to do: at least one of --do_train and --do_eval"),
        ("--input_file=", "--input_file is required"),
        ("--num_train_epochs=2", "--num_train_epochs has no effect in pretraining"),
        ("--num_train_steps=0", "--train_steps must be positive, not 0"),
        ("--masked_lm_budget=0.1", "--masked_lm_budget needs --spm_model_file or --vocab_file"),
        ("--max_seq_length=64", "--max_seq_length 64 is more than the 32 positions of "),
        ("--poly_power=2 --lr_schedule=constant", "--poly_power=2 is for --lr_schedule=linear"),
        (f"{SPLIT}=33", "33 cannot be split into batches of --train_batch_size 4 on 2 workers"),
        (f"{SPLIT}=32 --scale_learning_rate", "--scale_learning_rate is for a batch that grows"),
        (f"{SPLIT}=32 --gradient_accumulation_steps=2", "remove one of them"),
    ],
)
def test_conflicting_flags_are_an_error(make, flags, words):
    with pytest.raises(FlagError, match=words), simulated_workers(2):
        make(*flags.split())


def test_another_models_tokenizer_is_an_error(make, squad_dir):
    with pytest.raises(UserError, match=r"spm\.model has 200 pieces, .* belong to the same model"):
        make("--masked_lm_budget=0.1", f"--spm_model_file={squad_dir / 'spm.model'}")


@pytest.mark.parametrize(("workers", "micro_batches"), [(1, 8), (2, 4), (8, 1)])
def test_a_global_batch_keeps_the_steps_on_all_workers(make, workers, micro_batches):
    with simulated_workers(workers):
        task = make("--global_batch_size=32", "--train_batch_size=4", "--num_train_steps=100")
        assert task.settings.gradient_accumulation_steps == micro_batches
        assert task.steps(1000)[0] == 100
