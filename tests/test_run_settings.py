"""Every flag of every program gets another value in turn; the effect must be what it declares."""

import json
import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import optimization
from albert.core.errors import FlagError
from albert.optimization import OptimizerOptions
from albert.optimizers.schedule import DECAYS
from albert.records import DEV, TRAIN
from albert.settings import run_settings
from albert.settings.fields import IGNORED, Affects
from albert.tasks.glue import settings as glue_settings
from albert.tasks.glue.tasks import PROCESSORS
from albert.tasks.pretraining import task as pretraining_task
from albert.training import prepared
from albert.training.output_folder import check_weights, scoring_settings
from albert.training.prepared import prepare
from tests.helpers.entities import write_entities
from tests.helpers.files import flags_in, settings_class, settings_of
from tests.helpers.forking import ROOT
from tests.helpers.glue import write_all
from tests.helpers.race import write_race
from tests.helpers.running import simulated_workers, task_of
from tests.helpers.squad import train_tokenizer

# Other values than the defaults or those of `ARGUMENTS`; a switch has only one.
OTHER = """
    adam_epsilon=1e-8 albert_config_file={0}/other.json allreduce_dtype=float16
    answers=all cached_dir={0}/elsewhere class_weights=balanced data_dir={0}/other device=cpu
    doc_stride=8 dropout_prob=0.5 end_n_top=3 engine=tensorflow eval_file={0}/other.records
    export_dir={0}/exported global_batch_size=8192 gradient_accumulation_steps=2
    init_checkpoint={0}/model.ckpt keep_checkpoint_max=2 label_column=topic
    label_columns=label,topic label_separator=; learning_rate=0.5 length_buckets=16,32 log_steps=7
    long_texts=mean lr_schedule=constant masked_lm_budget=0.5 max_answer_length=5 max_eval_steps=5
    max_predictions_per_seq=5 max_qa_length=9 max_query_length=10 max_seq_length=48 n_best_size=5
    new_head=true ngram=2 null_score_diff_threshold=0.5 num_train_epochs=5 num_warmup_steps=3
    on_bad_row=skip optimizer={other_optimizer} patience=3 poly_power=2 precision=float16
    predict_batch_size=2 predict_file={0}/other.json.squad preprocess_workers=2
    save_checkpoints_minutes=1 save_checkpoints_steps=7 save_summary_steps=7 seed=1
    shard_optimizer=state spm_model_file={0}/other.model stall_seconds=60 start_n_top=3
    start_warmup_step=3 task_name=mrpc text_b_column=second text_column=first
    threshold_to_export=0.5 tokenizer_rules={{{{"added":[]}}}} track=mlflow train_batch_size=2
    train_feature_file={0}/{program}-train train_file={0}/other.json.squad train_steps=77
    warmup_proportion=0.5 warmup_step=3 weight_decay=0
"""
_OTHER_IN_SQUAD = "length_buckets=16,64"
OTHER_IN = {
    "run_squad_v1": _OTHER_IN_SQUAD,
    "run_squad_v2": _OTHER_IN_SQUAD,
    "run_ner": """
        entity_units=piece offsets=utf16 tag_column=2 token_column=1
        predict_file={0}/entities/train.conll test_file={0}/entities/test.txt
        train_file={0}/entities/other.conll
    """,
    "run_pretraining": "input_file={0}/other.records",
    "run_race": """
        eval_file={0}/elsewhere/dev.tf_record predict_file={0}/elsewhere/test.tf_record
        task_name=RACE train_file={0}/elsewhere/train.tf_record
    """,
}
# Flags that get no other value here: they select what is done and where, they need other workers,
# whose number is tested below, they are for WordPiece, or they have no effect without another flag.
# --seeds sets --seed, --model the flags of files, and --recipe those of the training.
NOT_CHANGED = {"do_eval", "do_predict", "do_train", "model", "output_dir", "recipe", "use_horovod"}
NOT_CHANGED |= {"strip_accents", "vocab_file"}
# Files that may be missing, or belong to another flag; flags that are refused.
_NOT_CHANGED_IN_SQUAD = {"dev_fraction", "input_file", "predict_feature_file"}
_NOT_CHANGED_IN_SQUAD |= {"predict_feature_left_file"}
NOT_CHANGED_IN = {
    "run_squad_v1": _NOT_CHANGED_IN_SQUAD,
    "run_squad_v2": _NOT_CHANGED_IN_SQUAD,
    "run_classifier": {"dev_fraction", "doc_stride", "input_file", "label_threshold", "seeds"},
    "run_ner": {"dev_fraction"},
    "run_pretraining": {"num_train_epochs", "warmup_proportion", "export_dir"},
}

BASE = "--albert_config_file={0}/albert.json --spm_model_file={0}/spm.model"
_SQUAD = "--train_file={0}/train.json.squad --predict_file={0}/train.json.squad"
_SQUAD += " --max_seq_length=64 --max_query_length=20 --doc_stride=16 --preprocess_workers=1"
# Without dropout, which --deterministic_run would change.
ARGUMENTS = {
    "run_squad_v1": _SQUAD,
    "run_squad_v2": f"{_SQUAD} --dropout_prob=0",
    "run_classifier": """
        --data_dir={0} --task_name=tsv --do_train --do_eval --max_seq_length=32
        --preprocess_workers=1 --recipe=reference
    """,
    "run_ner": """
        --train_file={0}/entities/train.conll --predict_file={0}/entities/dev.jsonl
        --max_seq_length=32 --preprocess_workers=1 --recipe=reference
    """,
    "run_pretraining": """
        --input_file={0}/train.records --eval_file={0}/eval.records --do_eval --max_seq_length=32
        --masked_lm_budget=0.1
    """,
    "run_race": "--data_dir={0} --max_seq_length=32 --max_qa_length=8 --preprocess_workers=1",
}


@pytest.fixture(scope="module")
def files(squad_dir, tmp_path_factory) -> pathlib.Path:
    """Writes small input for all programs, and other content under other names."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copy(squad_dir / "dev-v1.1.json", folder / "train.json.squad")
    content = json.loads((squad_dir / "dev-v1.1.json").read_text())
    content["data"].pop()
    (folder / "other.json.squad").write_text(json.dumps(content))
    config = json.loads((squad_dir / "albert.json").read_text())
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.0
    (folder / "albert.json").write_text(json.dumps(config))
    (folder / "other.json").write_text(json.dumps({**config, "initializer_range": 0.01}))
    shutil.copy(squad_dir / "spm.model", folder / "spm.model")
    train_tokenizer(squad_dir / "text.txt", folder / "other", config["vocab_size"], "bpe")
    for name, answers in ((".", ["0", "1"]), ("other", ["1", "0"])):
        (folder / name).mkdir(exist_ok=True)
        for part in ("train", "dev"):
            rows = [f"{answer}\tnr ls\t{answer}\tls\tnr\n" for answer in answers]
            header = "label\ttext_a\ttopic\tfirst\tsecond\n"
            (folder / name / f"{part}.tsv").write_text(header + "".join(rows))
    write_all(folder, list("nrlscmegbpta"))
    (folder / "entities").mkdir()
    write_entities(folder / "entities", count=2)
    columns = (folder / "entities/train.conll").read_text()
    (folder / "entities/other.conll").write_text(f"{columns}\na O\n")
    for number, name in enumerate((".", "other")):
        write_race(folder / name, "abc", first=number, count=1)
    for name in ("train", "eval", "other"):
        with tf.io.TFRecordWriter(str(folder / f"{name}.records")) as writer:
            writer.write(name.encode())
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("weight", [2]).initializer)
        tf.train.Saver().save(session, str(folder / "model.ckpt"), write_state=False)
    shutil.copy(squad_dir / "vocab.txt", folder / "vocab.txt")
    pieces = (squad_dir / "vocab.txt").read_text().splitlines()
    (folder / "other.txt").write_text("\n".join([*pieces[:5], *reversed(pieces[5:])]))
    return folder


@pytest.fixture(params=[path.stem for path in sorted(ROOT.glob("run_*.py"))])
def program(request, monkeypatch) -> str:
    # The records only need to differ.
    monkeypatch.setattr(pretraining_task, "check_files", lambda paths, options: None)
    sizes = np.array([[5], [1]])
    monkeypatch.setattr(pretraining_task, "read_sizes", lambda files, options, workers: sizes)
    # Other tests in this process must not be deterministic.
    monkeypatch.setattr(prepared, "make_deterministic", lambda: None)
    return request.param


@pytest.fixture
def effects(program, files, tmp_path, monkeypatch) -> Callable[..., dict]:
    """Returns the settings of Weights and of Scores, what Every worker must have in common where
    nothing is trained, and the content of the Features, by letter."""

    def effects(*arguments: str) -> dict:
        base = f"{BASE} {ARGUMENTS[program]}".split()
        given = [argument.format(files) for argument in (*base, *arguments)]
        settings = settings_of(settings_class(program), f"--output_dir={tmp_path}", *given)
        task = task_of(program)(settings)
        check_weights(task)
        runs = []
        for split in (DEV, TRAIN):
            task.splits = [split]
            runs.append(prepare(task))
        scored, trained = runs
        letters = {"E": scored.facts, "W": trained.recorded, "F": trained.data[TRAIN].content}
        letters["S"] = scoring_settings(task, scored.contents[DEV])
        # As recorded.
        return json.loads(json.dumps(letters))

    return effects


def difference(before: dict, after: dict) -> str:
    return "".join(letter for letter in "WSEF" if before[letter] != after[letter])


def other_value(program: str, name: str, files: pathlib.Path) -> str:
    default = getattr(settings_class(program)(), name)
    if isinstance(default, bool):
        return str(not default)
    other = {**flags_in(OTHER), **flags_in(OTHER_IN.get(program, ""))}[name]
    optimizer = "lamb" if default == "adamw" else "adamw"
    return other.format(files, program=program, other_optimizer=optimizer)


def test_every_flag_affects_what_it_says(program, effects, files):
    before, flags = effects(), settings_class(program).flags()
    ours = {name for name, flag in flags.items() if flag.theme != IGNORED}
    not_changed = NOT_CHANGED | NOT_CHANGED_IN.get(program, set())
    assert before == effects(), "the same flags, the same settings"
    for name in sorted(ours - not_changed):
        flag, value = flags[name], other_value(program, name, files)
        changed = difference(before, effects(f"--{name}={value}"))
        letters = {"W": Affects.WEIGHTS, "S": Affects.SCORES, "E": Affects.SCORES | Affects.JOB}
        expected = "".join(letter for letter, what in letters.items() if flag.affects & what)
        expected += "F" * (Affects.FEATURES in flag.affects)
        if flag.is_path:
            # With another input, features differ; no flag describes that.
            changed = changed.replace("F", "F" * ("F" in expected))
        if name == "init_checkpoint":
            # Only rank 0 knows it where nothing is trained.
            expected = expected.replace("E", "")
        if program == "run_pretraining":
            # Another program makes its features.
            expected = expected.replace("F", "")
        assert (name, changed) == (name, expected)


def test_a_vocabulary_and_its_case_affect_features(program, effects):
    before_words = effects()
    flags = ("--spm_model_file=", "--vocab_file={0}/vocab.txt")
    before = effects(*flags)
    expected = "WSE" if program == "run_pretraining" else "WSEF"
    assert difference(before_words, before) == expected
    assert difference(before, effects(*flags)) == ""
    assert difference(before, effects(flags[0], "--vocab_file={0}/other.txt")) == expected
    if program != "run_pretraining":
        for other in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
            assert difference(before, effects(*flags, f"--{other}=false")) == expected


@pytest.mark.parametrize("program", ["run_squad_v1"], indirect=True)
def test_workers_precision_and_the_scored_run_count(effects, monkeypatch, tmp_path):
    """Scores belong to one training, not to another one that was started in the same folder."""
    before = effects()
    with simulated_workers(2):
        assert difference(before, effects()) == "W"
    with monkeypatch.context() as patched:
        patched.setenv("TF_BF16_CONVERSION", "1")
        assert difference(before, effects()) == "WSE"
    record = {"settings": before["W"]}
    (tmp_path / "run.json").write_text(json.dumps(record))
    before = effects()
    (tmp_path / "run.json").write_text(json.dumps({**record, "another": True}))
    assert difference(before, effects()) == "S"


@pytest.mark.parametrize("program", ["run_squad_v1"], indirect=True)
def test_a_record_without_a_flag_means_its_default(program, effects, tmp_path, files):
    """New versions add flags, whose defaults are what earlier versions did."""
    settings = effects()["W"]
    for name in ("adam_epsilon", "optimizer", "patience", "seed"):
        earlier = {key: value for key, value in settings.items() if key != name}
        (tmp_path / "run.json").write_text(json.dumps({"settings": earlier}))
        assert name in effects()["W"]
        with pytest.raises(FlagError, match=f"--{name} "):
            effects(f"--{name}={other_value(program, name, files)}")


def test_choices_of_flags_match_what_tensorflow_code_offers():
    assert list(optimization.OPTIMIZERS) == list(run_settings.OPTIMIZERS)
    assert list(DECAYS) == list(run_settings.SCHEDULES)
    defaults = OptimizerOptions(1e-3, 1)
    assert defaults.schedule == run_settings.SCHEDULES[0]
    assert defaults.epsilon == run_settings.EPSILON
    assert defaults.weight_decay == run_settings.WEIGHT_DECAY
    assert (*PROCESSORS, glue_settings.CUSTOM) == glue_settings.TASKS
