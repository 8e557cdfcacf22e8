"""SQuAD under the flags: what is wanted, its parts, its steps, and what does not fit."""

from __future__ import annotations

import json

import pytest
import tensorflow.compat.v1 as tf

from runtime import distributed
from runtime.data.batches import Data
from runtime.data.records import shuffled_numbers
from runtime.distributed import Worker
from runtime.errors import FlagError, UserError
from runtime.flags import Settings
from runtime.training import run as run_module
from runtime.training.run import Run, define_flags
from runtime.training.task import DEV, TRAIN
from squad.task import SquadTask


@pytest.fixture
def make(set_flags, squad_dir, tmp_path):
    """Makes the task of some flags."""

    def make(*flags):
        set_flags(
            [lambda: define_flags(SquadTask)],
            f"--albert_config_file={squad_dir / 'albert.json'}",
            f"--spm_model_file={squad_dir / 'spm.model'}",
            f"--train_file={squad_dir / 'train-v1.1.json'}",
            f"--predict_file={squad_dir / 'dev-v1.1.json'}",
            f"--output_dir={tmp_path / 'out'}",
            "--max_seq_length=64",
            "--max_query_length=20",
            "--doc_stride=16",
            *flags,
        )
        return SquadTask(Settings())

    return make


def test_the_seed_orders_the_training_data(make, tmp_path, monkeypatch):
    """Every worker's first batch after a resumption, of a run from the flag to the batch."""
    read = []

    def train(estimator, input_fn, *others):
        with tf.Graph().as_default(), tf.Session() as session:
            batch = tf.data.make_one_shot_iterator(input_fn()).get_next()
            read.append(session.run(batch["unique_ids"]) - 1_000_000_000)

    monkeypatch.setattr(run_module, "train", train)
    monkeypatch.setattr(Run, "_begin", lambda self: 3)
    for seed in (1, 77):
        flags = (f"--output_dir={tmp_path / str(seed)}", "--train_batch_size=8", "--train_steps=9")
        task = make(f"--seed={seed}", *flags)
        data = task.part(TRAIN).prepared()
        Run(task).train(data, None)
        assert read.pop().tolist() == shuffled_numbers(data.num_records, 8, seed, 3).tolist()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], [TRAIN, DEV]), (["--train_file="], [DEV]), (["--predict_file="], [TRAIN])],
)
def test_what_is_wanted(make, flags, expected):
    assert make(*flags).wanted() == expected


@pytest.mark.parametrize(
    ("flags", "trims"),
    [([], True), (["--trim_batches=false"], False), (["--mask_padding_in_loss=false"], False)],
)
def test_batches_are_cut_where_the_loss_does_not_see_it(make, flags, trims):
    task = make(*flags)
    assert task.trims == task.part(TRAIN).trims == task.part(DEV).trims == trims


def test_parts(make, tmp_path):
    task = make("--predict_feature_left_file=left")
    assert task.part(TRAIN).cached.paths == [f"{tmp_path}/out/train.tf_record"]
    assert task.part(DEV).cached.paths == [f"{tmp_path}/out/eval.tf_record", "left"]
    (tmp_path / "train.tf_record").touch()
    ready = make(f"--input_file={tmp_path}").part(TRAIN)
    assert ready.cached.paths == [f"{tmp_path}/train.tf_record"]
    assert task.model_inputs() == task.part(TRAIN).spec


@pytest.mark.parametrize(
    ("flags", "workers", "expected"),
    [
        (["--num_train_epochs=3"], 1, (37, 3)),
        (["--num_train_epochs=3"], 2, (18, 1)),
        (["--train_steps=50", "--num_train_epochs=3"], 2, (50, 5)),
        (["--num_train_epochs=3", "--gradient_accumulation_steps=4"], 1, (9, 0)),
    ],
)
def test_steps(make, monkeypatch, flags, workers, expected):
    """100 examples are 12.5 steps of 8."""
    task = make("--train_batch_size=8", "--warmup_proportion=0.1", *flags)
    monkeypatch.setattr(distributed, "_worker", Worker(0, workers))
    assert task.steps(num_examples=100) == expected


def test_too_few_examples_for_a_step(make):
    with pytest.raises(UserError, match="3 examples are less than one step of 32 in"):
        make().steps(num_examples=3)


def test_there_are_scores_where_there_are_answers(make, squad_dir, tmp_path):
    assert make().score_key(make().part(DEV).prepared()) == "f1"
    content = json.loads((squad_dir / "dev-v1.1.json").read_text())
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                del question["answers"]
    (tmp_path / "questions.json").write_text(json.dumps(content))
    task = make(f"--predict_file={tmp_path / 'questions.json'}")
    data = task.part(DEV).prepared()
    assert isinstance(data, Data) and task.score_key(data) is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--train_file=", "--predict_file="], "nothing to do: give --train_file, --predict_file"),
        (["--max_seq_length=23"], r"--max_seq_length 23 must be more than .* 20 \+ 3"),
        (["--doc_stride=42"], "--doc_stride 42 is more than the 41 tokens of a window beside"),
        (["--max_seq_length=256"], "--max_seq_length 256 is more than the 128 positions of"),
        (["--train_feature_file=f", "--predict_feature_file=./f"], "must be different files: f, "),
    ],
)
def test_flags_that_do_not_fit(make, flags, words):
    with pytest.raises(FlagError, match=words):
        make(*flags)
