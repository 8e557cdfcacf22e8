"""Flags with odd values, or values that do not fit the folders they name."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt, of_values
from tests.faults.inputs.good import spoiled, training

# Values that flags of run_squad_v1.py cannot have; each must be refused with the flag's name.
_VALUES = {
    "learning_rate": ("nan", "inf", "-1", "1e", "1e400", "", "1,5"),
    "num_train_epochs adam_epsilon": ("nan", "-1", "inf", "x"),
    "warmup_proportion": ("2", "-0.1", "nan", "10%"),
    "train_steps": ("1e3", "x", "9" * 40),
    "train_batch_size gradient_accumulation_steps": ("0", "-8", "1099511627776", "8.0", ""),
    "predict_batch_size log_steps save_summary_steps n_best_size doc_stride": ("0", "x", "-1"),
    "save_checkpoints_steps max_answer_length preprocess_workers": ("0", "-5", "5k"),
    "save_checkpoints_minutes stall_seconds patience": ("-1", "nan", "x"),
    "seed": ("-1", "1.5", "9" * 60, "0b1"),
    "max_query_length": ("0", "-1", "64", "61"),
    "max_seq_length": ("4", "-64", "129", "65537", "1e2"),
    "length_buckets": ("0,64", "64,32", "x", "32", "-1,64", "32,,64", "32;64", "64.0", "32,128"),
    "device": ("tpu", "gpu", "CPU", ""),
    "optimizer shard_optimizer allreduce_dtype": ("all", "sgd", "AdamW"),
    "use_tpu no_such_flag": ("true", "maybe"),
    "do_train": ("perhaps", "2"),
    "init_checkpoint": ("{t}/none", "{w}/albert.json", "{w}/RACE", "{w}/squad/model.ckpt-99"),
    "albert_config_file": ("{t}/none", "{w}", "{w}/spm.model", "{w}/train-v1.1.json", ""),
    "train_file": ("{w}/train-v2.0.json", "{w}/albert.json", "{w}/spm.model", "/dev/null"),
    "predict_file": ("{w}/dev-v2.0.json", "{w}/albert.json", "/dev/null"),
    "output_dir": ("{w}/albert.json", "/proc/x", "/dev/null", "/sys/x", "{t}/" + "x" * 300),
    "export_dir": ("{w}/albert.json", "/proc/x", "/dev/null/x"),
    "train_feature_file predict_feature_file": ("/proc/x", "{w}/train-v1.1.json"),
    "predict_feature_left_file": ("{w}/dev-v1.1.json",),
    "flagfile": ("{t}/none", "{t}", "/dev/null/x"),
}
# A program, and the folder of another program's run.
_FOLDERS = (
    *(("run_squad_v2", "squad"), ("run_squad_v1", "mrpc"), ("run_classifier", "squad2")),
    *(("run_race", "mrpc"), ("run_ner", "mrpc"), ("run_pretraining", "squad")),
)
_NAMES = ("ü 日本 \U0001f389", "with space", "a,b", "a%20b", "{0}", "$HOME", "a=b", "-x")


def attempts() -> Iterator[Attempt]:
    """Yields all attempts of the group."""
    yield from of_values("squad", training("run_squad_v1"), _VALUES)
    for program, source in _FOLDERS:
        command = training(program, f"--output_dir={{t}}/{source}")
        yield Attempt(f"{program}-into-{source}", command, source, spoiled("", "", source))
    for name in _NAMES:

        def has_weights(result, folder, name=name) -> bool:
            return (folder / name / "model.ckpt-2.index").exists()

        command = training("run_squad_v1", "--do_predict=false", f"--output_dir={{t}}/{name}")
        yield Attempt(f"output_dir-{name}", command, holds=has_weights, must_end_well=True)

    def itself(good: pathlib.Path, folder: pathlib.Path) -> None:
        (folder / "flags").write_text(f"--flagfile={folder / 'flags'}\n")

    def trained(result, folder) -> bool:
        return (folder / "out/model.ckpt-2.index").exists()

    command = training("run_squad_v1", "--do_predict=false", "--flagfile={t}/flags")
    yield Attempt("flagfile-of-itself", command, "flag", itself, trained)
