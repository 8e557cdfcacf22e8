"""Pretraining under the flags: its splits, its steps, and which files it reads."""

from __future__ import annotations

import json
import logging
import shutil
from unittest import mock

import pytest

from albert.core.errors import FlagError, UserError
from albert.distributed import collectives
from albert.distributed.collectives import Worker
from albert.tasks.pretraining import task as task_module
from albert.tasks.pretraining.input_pipeline import check_files
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from tests.helpers.files import settings_of
from tests.helpers.models import CONFIGS


@pytest.fixture
def make(files, encoder, tmp_path):
    config = tmp_path / "albert.json"
    sizes = {"vocab_size": encoder.tokenizer.size, "max_position_embeddings": 32}
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
                list(map(read, map(task.split, task.requested_splits())))
            assert [call.args[0] for call in check.call_args_list] == [[paths[n]] for n in expected]

    def test_scoring_is_limited_to_max_eval_steps(self, make):
        flags = ("--do_eval", "--eval_batch_size=8")
        task = make(*flags, "--max_eval_steps=2")
        train, dev = (task.split(name).prepared() for name in ("train", "dev"))
        count = train.num_records
        assert count > 16 and train.num_examples == dev.num_examples == count
        assert train.max_batches is None
        assert (dev.num_records, dev.max_batches) == (16, 2)
        assert make(*flags, "--max_eval_steps=1000").split("dev").prepared().num_records == count

    def test_scoring_on_the_training_file_warns(self, make, files, other, log):
        for more, warnings in (
            ("", []),
            (f",{files['masked']}", [f"in both --input_file and --eval_file: {files['masked']}"]),
        ):
            make("--do_eval", f"--eval_file={other}{more}").split("dev").prepared()
            assert log(logging.WARNING) == warnings


@pytest.mark.parametrize(("workers", "expected"), [(1, (100, 30)), (8, (12, 3)), (200, (1, 0))])
def test_workers_divide_the_steps(make, monkeypatch, workers, expected):
    task = make("--num_train_steps=100", "--num_warmup_steps=30", "--start_warmup_step=16")
    monkeypatch.setattr(collectives, "_worker", Worker(0, workers))
    assert task.steps(num_examples=12345) == expected
    options = task.optimizer_options(*expected)
    assert (options.num_train_steps, options.num_warmup_steps) == expected
    assert options.start_warmup_step == 16 // workers
    assert task.num_groups() == 0 and make("--init_from_group0").num_groups() == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--do_train=false", "nothing to do: at least one of --do_train and --do_eval"),
        ("--input_file=", "--input_file is required"),
        ("--num_train_epochs=2", "--num_train_epochs has no effect in pretraining"),
        ("--num_train_steps=0", "--train_steps must be positive, not 0"),
        ("--masked_lm_budget=0.1", "--masked_lm_budget needs --spm_model_file or --vocab_file"),
        ("--max_seq_length=64", "--max_seq_length 64 is more than the 32 positions of "),
        ("--poly_power=2 --lr_schedule=cosine", "--poly_power=2 is for --lr_schedule=linear"),
    ],
)
def test_conflicting_flags_are_an_error(make, flags, words):
    with pytest.raises(FlagError, match=words):
        make(*flags.split())


def test_another_models_tokenizer_is_an_error(make, squad_dir):
    with pytest.raises(
        UserError, match=r"spm\.model has 200 pieces, .* must belong to the same model"
    ):
        make("--masked_lm_budget=0.1", f"--spm_model_file={squad_dir / 'spm.model'}")


@pytest.mark.parametrize(("workers", "micro_batches"), [(1, 8), (2, 4), (8, 1)])
def test_a_global_batch_keeps_the_steps_on_all_workers(make, monkeypatch, workers, micro_batches):
    monkeypatch.setattr(collectives, "_worker", Worker(0, workers))
    task = make("--global_batch_size=32", "--train_batch_size=4", "--num_train_steps=100")
    assert task.settings.gradient_accumulation_steps == micro_batches
    assert task.steps(1000)[0] == 100


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "33 cannot be split into batches of --train_batch_size 4 on 2 workers"),
        (("--scale_learning_rate",), "--scale_learning_rate is for a batch that grows"),
        (("--gradient_accumulation_steps=2",), "remove one of them"),
    ],
)
def test_a_global_batch_that_cannot_be_split_is_refused(make, monkeypatch, flags, message):
    monkeypatch.setattr(collectives, "_worker", Worker(0, 2))
    with pytest.raises(FlagError, match=message):
        make("--global_batch_size=33", "--train_batch_size=4", *flags)
