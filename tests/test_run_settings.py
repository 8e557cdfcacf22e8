"""What each flag of each program shapes: by this a run is resumed, scored anew, or taken up.

A flag that shapes a result and is not in the settings would be changed without a word by whoever
resumes the run. Every flag is in one of the tables here: with another value for it, and with what
that must change, or among those that shape no result.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable

import pytest
import sentencepiece as spm
import tensorflow.compat.v1 as tf
from absl import flags

import runtime.training.run
from check_setup import PROGRAMS
from glue.run import GlueRun
from pretraining import run as pretraining_run
from pretraining.run import PretrainingRun
from runtime import distributed, locks
from runtime.flags import define_ignored_flags, define_run_flags
from runtime.training.run import Run
from squad.run import SquadRun, make_v1_model_fn
from tests.glue.samples import write_all

# Letters of what a value shapes: the Weights, the Scores, the Features to train on, and what
# Every worker must have alike where there is only evaluation.
COMMON = {
    "albert_config_file": ("{0}/other.json", "WSE"),
    "allreduce_dtype": ("float16", "W"),
    "deterministic_run": ("true", "W"),
    "gradient_accumulation_steps": ("2", "W"),
    "init_checkpoint": ("{0}/model.ckpt", "WS"),
    "learning_rate": ("0.5", "W"),
    "scale_learning_rate": ("true", "W"),
    "seed": ("1", "W"),
    "spm_model_file": ("{0}/other.model", "WSEF"),
    "train_batch_size": ("2", "W"),
    "train_steps": ("77", "W"),
    "use_einsum": ("true", "W"),
}
OF_EPOCHS = {"num_train_epochs": ("3", "W"), "warmup_proportion": ("0.5", "W")}
OF_TEXT = {
    "do_lower_case": ("false", "WSEF"),
    "max_seq_length": ("48", "WSEF"),
    "predict_batch_size": ("2", "E"),
}
SQUAD = {
    **COMMON,
    **OF_EPOCHS,
    **OF_TEXT,
    "doc_stride": ("8", "WSEF"),
    "mask_padding_in_loss": ("false", "WS"),
    "max_answer_length": ("5", "S"),
    "max_query_length": ("10", "WSEF"),
    "n_best_size": ("5", "S"),
    "predict_file": ("{0}/other.json.squad", "SE"),
    "train_file": ("{0}/other.json.squad", "WF"),
    "trim_batches": ("false", "W"),
}
GLUE = {
    **COMMON,
    **OF_EPOCHS,
    **OF_TEXT,
    "data_dir": ("{0}/other", "WSEF"),
    "optimizer": ("lamb", "W"),
    "task_name": ("mrpc", "WSEF"),
    "tsv_regression": ("true", "WSEF"),
    "warmup_step": ("3", "W"),
}
PRETRAINING = {
    **COMMON,
    "eval_file": ("{0}/other.records", "SE"),
    "init_from_group0": ("true", "W"),
    "input_file": ("{0}/other.records", "W"),
    "masked_lm_budget": ("0.5", "WSE"),
    "max_eval_steps": ("5", "SE"),
    "max_predictions_per_seq": ("5", "WSE"),
    "max_seq_length": ("48", "WSE"),
    "ngram": ("2", "WSE"),
    "num_warmup_steps": ("3", "W"),
    "optimizer": ("adamw", "W"),
    "poly_power": ("2", "W"),
    "predict_batch_size": ("2", "SE"),
    # It also draws the masks.
    "seed": ("1", "WSE"),
    "spm_model_file": ("{0}/other.model", "WSE"),
    "start_warmup_step": ("3", "W"),
}

# What stands for a flag among the settings, where that is not its name.
NAMES = {
    "data_dir": {"train_file", "dev_file", "dev features"},
    "predict_file": {"predict_file", "prediction features"},
    "spm_model_file": {"spm_model_file", "vocabulary"},
    "tsv_regression": {"labels"},
}
# Which tasks are done, where files are, how the work is shared out and shown, and the reference's
# flags without a use.
NO_RESULT = {
    *("albert_hub_module_handle", "gcp_project", "iterations_per_loop", "master"),
    *("num_tpu_cores", "tpu_name", "tpu_zone", "use_tpu"),
    *("device", "do_train", "enable_scoped_allocator", "export_dir", "log_steps", "output_dir"),
    *("overwrite_output_dir", "save_checkpoints_minutes", "save_checkpoints_steps"),
    *("save_summary_steps", "stall_seconds", "use_horovod", "vocab_file"),
}
SQUAD_NO_RESULT = {
    *("do_predict", "from_scratch", "input_file"),
    *("predict_feature_file", "predict_feature_left_file"),
    *("preprocess_workers", "train_feature_file"),
}
GLUE_NO_RESULT = {
    *("cached_dir", "do_eval", "do_predict", "from_scratch", "input_file"),
    "keep_checkpoint_max",
    *("preprocess_workers", "threshold_to_export"),
    # Other names.
    *("eval_batch_size", "train_step"),
}
PRETRAINING_NO_RESULT = {
    *("do_eval", "keep_checkpoint_max"),
    # Refused.
    *("num_train_epochs", "warmup_proportion"),
    # Other names.
    *("eval_batch_size", "num_train_steps"),
}


@pytest.fixture(scope="module")
def files(squad_dir, tmp_path_factory) -> pathlib.Path:
    """Small input for all programs, and under other names the same with other content."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copy(squad_dir / "dev-v1.1.json", folder / "train.json.squad")
    content = json.loads((squad_dir / "dev-v1.1.json").read_text())
    content["data"].pop()
    (folder / "other.json.squad").write_text(json.dumps(content))
    config = json.loads((squad_dir / "albert.json").read_text())
    # Dropout would change with --deterministic_run.
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.0
    (folder / "albert.json").write_text(json.dumps(config))
    (folder / "other.json").write_text(json.dumps({**config, "initializer_range": 0.01}))
    shutil.copy(squad_dir / "spm.model", folder / "spm.model")
    _write_other_tokenizer(squad_dir / "text.txt", folder / "other", config["vocab_size"])
    for name, answers in ((".", ["0", "1"]), ("other", ["1", "0"])):
        (folder / name).mkdir(exist_ok=True)
        for part in ("train", "dev"):
            rows = [f"{answer}\tnr ls\n" for answer in answers]
            (folder / name / f"{part}.tsv").write_text("label\ttext_a\n" + "".join(rows))
    write_all(folder, list("nrlscmegbpta"))
    for name in ("train", "eval", "other"):
        with tf.io.TFRecordWriter(str(folder / f"{name}.records")) as writer:
            writer.write(name.encode())
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("weight", [2]).initializer)
        tf.train.Saver().save(session, str(folder / "model.ckpt"), write_state=False)
    return folder


def _write_other_tokenizer(text: pathlib.Path, prefix: pathlib.Path, vocab_size: int) -> None:
    """A model with as many pieces as that of the other tests."""
    spm.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(prefix),
        vocab_size=vocab_size,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        num_threads=1,
        minloglevel=2,
    )


@pytest.fixture
def prepared(monkeypatch) -> dict:
    """Gets what a run hands to `Run` as settings of the weights (W) and of scores (S)."""
    found = {}
    check = Run.check

    def keep_and_check(self, settings):
        found["W"] = settings
        check(self, settings)

    def keep(self, input_fn, num_examples, scorer, key, settings, outputs=()):
        found["S"] = settings

    monkeypatch.setattr(Run, "check", keep_and_check)
    monkeypatch.setattr(Run, "score", keep)
    return found


@pytest.fixture
def shaped(set_flags, files, tmp_path, prepared) -> Callable[..., dict]:
    """What a program under some flags takes for its settings, by the letters above."""

    def shaped(program: str, prepare: Callable[[dict], None], *arguments: str) -> dict:
        definers = [define_run_flags, PROGRAMS[program].define_flags, define_ignored_flags]
        given = [argument.format(files) for argument in (*BASE, *arguments)]
        set_flags(definers, f"--output_dir={tmp_path}", *given)
        prepared.clear()
        try:
            prepare(prepared)
        finally:
            locks.release_held()
        # As they are recorded.
        return json.loads(json.dumps(prepared))

    return shaped


BASE = ("--albert_config_file={0}/albert.json", "--spm_model_file={0}/spm.model")
OF_PROGRAM = {
    "run_squad_v1.py": (
        "--train_file={0}/train.json.squad",
        "--predict_file={0}/train.json.squad",
        *("--max_seq_length=64", "--max_query_length=20", "--doc_stride=16"),
        "--preprocess_workers=1",
    ),
    "run_classifier.py": (
        *("--data_dir={0}", "--task_name=tsv", "--do_train", "--do_eval"),
        *("--max_seq_length=32", "--preprocess_workers=1"),
    ),
    "run_pretraining.py": (
        *("--input_file={0}/train.records", "--eval_file={0}/eval.records", "--do_eval"),
        *("--max_seq_length=32", "--masked_lm_budget=0.1"),
    ),
}


def squad(found: dict) -> None:
    run = SquadRun(make_v1_model_fn, is_v2=False, outputs=[])
    data = run.prepare_prediction()
    found["E"] = dict(run.facts)
    run.prepare_training()
    found["F"] = run.facts["training features"]
    run.predict(data, None, "f1")


def glue(found: dict) -> None:
    run = GlueRun()
    part = run.prepare_evaluation()
    found["E"] = dict(run.facts)
    run.prepare_training()
    found["F"] = run.facts["train features"]
    run.evaluate(part)


def pretraining(found: dict) -> None:
    run = PretrainingRun()
    paths = run.prepare_evaluation()
    found["E"] = dict(run.facts)
    run.prepare_training()
    run.evaluate(paths)


CASES = {
    "run_squad_v1.py": (squad, SQUAD, SQUAD_NO_RESULT),
    "run_classifier.py": (glue, GLUE, GLUE_NO_RESULT),
    "run_pretraining.py": (pretraining, PRETRAINING, PRETRAINING_NO_RESULT),
}


@pytest.fixture(params=CASES)
def case(request, shaped, monkeypatch) -> tuple[Callable[..., dict], dict, set]:
    """Gives the settings of a program under more flags, and the program's table and list."""
    # The records are of no use but to be told from others.
    monkeypatch.setattr(pretraining_run, "check_files", lambda paths, options: None)
    # Other tests in this process are not to be.
    monkeypatch.setattr(runtime.training.run, "make_deterministic", lambda: None)
    prepare, table, no_result = CASES[request.param]
    arguments = OF_PROGRAM[request.param]
    return lambda *more: shaped(request.param, prepare, *arguments, *more), table, no_result


def difference(before: dict, after: dict, names: set[str] | None = None) -> str:
    """Letters of what is not the same; in settings, only under the names that are given."""
    letters = ""
    for letter in "WSEF":
        old, new = before.get(letter), after.get(letter)
        if names and isinstance(old, dict):
            old, new = ([(name, value.get(name)) for name in names] for value in (old, new))
        letters += letter if old != new else ""
    return letters


def test_every_flag(case):
    settings, table, no_result = case
    before = settings()
    defined = {
        flag.name
        for module, of_module in flags.FLAGS.flags_by_module_dict().items()
        if module.split(".")[0] not in ("absl", "tensorflow")
        for flag in of_module
    }
    assert defined == {*table, *no_result, *NO_RESULT}
    assert before == settings(), "the same flags, the same settings"
    found = {
        name: difference(before, settings(f"--{name}={value}"), NAMES.get(name, {name}))
        for name, (value, _) in table.items()
    }
    assert found == {name: letters for name, (_, letters) in table.items()}


def test_the_number_of_workers(case, monkeypatch):
    settings, *_ = case
    before = settings()
    monkeypatch.setattr(distributed, "_worker", distributed.Worker(rank=0, size=2))
    assert difference(before, settings()) == "W"


def test_bfloat16(case, monkeypatch):
    settings, *_ = case
    before = settings()
    monkeypatch.setenv("TF_BF16_CONVERSION", "1")
    assert difference(before, settings()) == "WSE"


def test_the_run_that_is_scored(case, tmp_path):
    """Scores are those of a training, and not of one that was begun anew in the same folder."""
    settings, *_ = case
    record = {"settings": settings()["W"]}
    (tmp_path / "run.json").write_text(json.dumps(record))
    before = settings()
    (tmp_path / "run.json").write_text(json.dumps({**record, "another": True}))
    assert difference(before, settings()) == "S"
