"""Flags that are odd, contradict one another, or do not fit what is in the folders they name."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt
from tests.faults.inputs.data import training
from tests.faults.inputs.good import copied, with_json, written

# Values that a flag of run_squad_v1.py cannot have; each must be refused by the flag's name.
_VALUES = {
    "learning_rate": ("nan", "inf", "-1", "1e", "1e400", "", "1,5"),
    "num_train_epochs": ("nan", "-1", "inf", "1e10"),
    "warmup_proportion": ("2", "-0.1", "nan", "10%"),
    "train_steps": ("1e3", "x", "9" * 40),
    "train_batch_size": ("0", "-8", "1099511627776", "8.0", ""),
    "gradient_accumulation_steps": ("0", "-1", "9" * 30),
    "predict_batch_size": ("0", "x"),
    "save_checkpoints_steps": ("0", "-5", "5k"),
    "save_checkpoints_minutes": ("-1", "nan", "x"),
    "log_steps": ("0", "-1"),
    "save_summary_steps": ("0", "-1"),
    "seed": ("-1", "1.5", "9" * 60, "0b1"),
    "adam_epsilon": ("0", "-1e-6", "nan", "inf"),
    "stall_seconds": ("-1", "nan"),
    "doc_stride": ("0", "-16", "x"),
    "max_query_length": ("0", "-1", "64", "61"),
    "max_seq_length": ("4", "-64", "129", "65537", "1e2"),
    "n_best_size": ("0", "-1", "1.0"),
    "max_answer_length": ("0", "-30"),
    "preprocess_workers": ("0", "-1", "two"),
    "patience": ("-1", "0.5", "x"),
    "length_buckets": ("0,64", "64,32", "x", "32", "-1,64", "32,,64", "32;64", "64.0", "32,128"),
    "device": ("tpu", "gpu", "CPU", ""),
    "optimizer": ("sgd", "", "AdamW"),
    "shard_optimizer": ("all", "gradients", "state"),
    "allreduce_dtype": ("float64", "bfloat"),
    "use_tpu": ("true", "maybe"),
    "albert_hub_module_handle": ("x",),
    "no_such_flag": ("1", ""),
    "do_train": ("perhaps", "2"),
    "init_checkpoint": ("{t}/none", "{w}/albert.json", "{w}/RACE", "{w}/squad/model.ckpt-99"),
    "albert_config_file": ("{t}/none", "{w}", "{w}/spm.model", "{w}/train-v1.1.json", ""),
    "train_file": ("{w}/train-v2.0.json", "{w}/albert.json", "{w}/spm.model", "/dev/null"),
    "predict_file": ("{w}/dev-v2.0.json", "{w}/albert.json", "/dev/null"),
    "output_dir": ("{w}/albert.json", "/proc/x", "/dev/null", "/sys/x", "{t}/" + "x" * 300),
    "export_dir": ("{w}/albert.json", "/proc/x", "/dev/null/x"),
    "train_feature_file": ("/proc/x", "{w}/train-v1.1.json", "/dev/full"),
    "predict_feature_file": ("/proc/x", "{w}/dev-v1.1.json"),
    "predict_feature_left_file": ("{w}/dev-v1.1.json",),
    "flagfile": ("{t}/none", "{t}", "/dev/null/x"),
}
# Flags that together make no sense, and which of them the line must name.
_TOGETHER = {
    "nothing-to-do": (("--do_train=false", "--do_predict=false"), "nothing to do"),
    "patience-unscored": (("--patience=1", "--do_predict=false"), "patience|predict"),
    "scoring-unscored": (("--evaluate_while_training", "--do_predict=false"), "evaluate_while"),
    "no-model": (("--do_train=false",), "init_checkpoint|out"),
    "one-feature-file": (
        ("--train_feature_file={t}/x", "--predict_feature_file={t}/x"),
        "feature_file",
    ),
    "scratch-and-model": (("--from_scratch", "--init_checkpoint={w}/none"), "none|from_scratch"),
    "a-word": (("word",), "word"),
    "no-value": (("--learning_rate",), "learning_rate"),
}
# Flags that shape a run, with other values than those of `squad`.
_CHANGED = {
    "learning_rate": "2e-3",
    "seed": "4",
    "train_batch_size": "4",
    "gradient_accumulation_steps": "2",
    "warmup_proportion": "0.5",
    "train_steps": "5",
    "optimizer": "lamb",
    "adam_epsilon": "1e-3",
    "max_seq_length": "48",
    "doc_stride": "8",
    "max_query_length": "10",
    "do_lower_case": "false",
    "patience": "1",
    "length_buckets": "32,64",
    "use_einsum": "true",
    "deterministic_run": "true",
    "remove_padding": "false",
    "trim_batches": "false",
}

# Of a configuration; ALBERT's weights fit the first three.
_OTHER_SIZES = {
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "hidden_act": "tanh",
    "intermediate_size": 32,
    "max_position_embeddings": 256,
    "inner_group_num": 2,
}


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    for flag, values in _VALUES.items():
        for value in values:
            says = "albert_hub|hub_module" if "hub" in flag else _says(flag, value)
            command = training("run_squad_v1", f"--{flag}={value}")
            yield Attempt(f"{flag}={value[:24]}", command, says)
    for name, (flags, says) in _TOGETHER.items():
        yield Attempt(f"together-{name}", training("run_squad_v1", *flags), says)
    for flag, value in _CHANGED.items():
        steps = () if flag == "train_steps" else ("--train_steps=4",)
        flags = (f"--{flag}={value}", *steps, "--output_dir={t}/squad")
        command = training("run_squad_v1", *flags)
        yield Attempt(f"changed-{flag}", command, flag, copied("squad"))
    yield from _folders()
    yield from _flag_files()


def _says(flag: str, value: str) -> str:
    """The flag's name, or of a file its own name."""
    file = value.removeprefix("{w}").removeprefix("{t}").strip("/")
    named = file[:40] if len(file) > 3 and "/" in value else "good" if value == "{w}" else ""
    return f"{flag}|{named}" if named else flag


def _folders() -> Iterator[Attempt]:
    """Folders of other runs, and with odd names."""
    of = {"run_squad_v2": "squad", "run_squad_v1": "mrpc", "run_classifier": "squad2"}
    for program, source in {**of, "run_race": "mrpc", "run_pretraining": "squad"}.items():
        command = training(program, f"--output_dir={{t}}/{source}")
        if program == "run_pretraining":
            command = tuple(flag for flag in command if "train_step=" not in flag)
        yield Attempt(f"{program}-into-{source}", command, source, copied(source))

    def another_config(config: dict) -> None:
        config["hidden_act"] = "relu"

    make = with_json("albert.json", another_config)
    flags = ("--albert_config_file={t}/albert.json", "--init_checkpoint={w}/squad/model.ckpt-best")
    flags += ("--from_scratch=false",)
    for source, config in {"squad": "bert", "mrpc": "bert", "squad2": "bert"}.items():
        command = training(
            "run_squad_v1",
            f"--init_checkpoint={{w}}/{source}/model.ckpt-best",
            f"--albert_config_file={{w}}/{config}.json",
            "--from_scratch=false",
        )
        yield Attempt(f"weights-of-{source}-as-{config}", command, "an ALBERT, not a BERT")
    for key, value in _OTHER_SIZES.items():

        def another(good: pathlib.Path, folder: pathlib.Path, key=key, value=value) -> None:
            copied("squad")(good, folder)
            with_json("albert.json", lambda config: config.update({key: value}))(good, folder)

        model = "--albert_config_file={t}/albert.json"
        command = training("run_squad_v1", "--do_train=false", "--output_dir={t}/squad", model)
        yield Attempt(f"predict-with-other-{key}", command, f"trained with.* {key} ", another)
    into = training("run_squad_v1", *flags, "--train_steps=4", "--output_dir={t}/squad")

    def run_and_config(good: pathlib.Path, folder: pathlib.Path) -> None:
        copied("squad")(good, folder)
        make(good, folder)

    yield Attempt("changed-config", into, "albert_config_file|config|hidden_act", run_and_config)
    names = ("ü 日本 \U0001f389", "with space", "a,b", "a%20b", "{0}", "$HOME", "a=b", "-x")
    for name in names:
        command = training("run_squad_v1", "--do_predict=false", f"--output_dir={{t}}/{name}")

        def has_weights(result, folder, name=name) -> bool:
            return (folder / name / "model.ckpt-2.index").exists()

        yield Attempt(f"output_dir-{name}", command, holds=has_weights, must_end_well=True)


def _flag_files() -> Iterator[Attempt]:
    command = training("run_squad_v1", "--do_predict=false", "--flagfile={t}/flags")

    def trained(result, folder) -> bool:
        return (folder / "out/model.ckpt-2.index").exists()

    def itself(good: pathlib.Path, folder: pathlib.Path) -> None:
        (folder / "flags").write_text(f"--flagfile={folder / 'flags'}\n")

    yield Attempt("flagfile-of-itself", command, "flag", itself, trained)
    contents = {
        "unknown": "--no_such_flag=1\n",
        "binary": bytes(range(256)),
        "a-sentence": "learning_rate 3\n",
        "bad-value": "--learning_rate=x\n",
    }
    for name, content in contents.items():
        says = "learning_rate|flag|sentence"
        yield Attempt(f"flagfile-{name}", command, says, written("flags", content))

    def deep(good: pathlib.Path, folder: pathlib.Path) -> None:
        for n in range(3000):
            (folder / f"f{n}").write_text(f"--flagfile={folder}/f{n + 1}\n")
        shutil.copy(folder / "f0", folder / "flags")
        os.truncate(folder / "f2999", 0)

    yield Attempt("flagfile-3000-deep", command, "flag", deep, trained)
