"""Defaults of all programs' flags, as `--help` and the pages show them.

The tables are written by hand: for the reference's programs (the Habana fork's, which has Google's
flags and more), for intended differences, and for what the reference does not have.
"""

import functools
import os
import re

import pytest

from tests.helpers.files import defaults_of, flags_in
from tests.helpers.forking import ROOT
from tests.helpers.running import command_of, run, task_of

# A flag without "=" has no default.
OF_TPUS = """
    use_tpu=false tpu_name tpu_zone gcp_project master num_tpu_cores=8 iterations_per_loop=1000
"""
NO_USE = {*flags_in(OF_TPUS), "albert_hub_module_handle", "input_file_mode"}
OF_SQUAD = """
    albert_config_file albert_hub_module_handle do_lower_case=true do_predict=false do_train=false
    doc_stride=128 init_checkpoint learning_rate=5e-05 max_answer_length=30 max_query_length=64
    max_seq_length=384 n_best_size=20 num_train_epochs=3.0 output_dir predict_batch_size=8
    predict_feature_file predict_feature_left_file predict_file spm_model_file train_batch_size=32
    train_feature_file train_file vocab_file warmup_proportion=0.1
"""
REFERENCE = {
    "run_squad_v1.py": f"""
        {OF_TPUS} {OF_SQUAD} deterministic_run=false enable_scoped_allocator=false export_dir
        input_file save_checkpoints_steps=5000 save_summary_steps=1 train_steps=-1 use_einsum=false
        use_horovod=false
    """,
    "run_squad_v2.py": f"""
        {OF_TPUS} {OF_SQUAD} dropout_prob=0.1 end_n_top=5 save_checkpoints_steps=1000 start_n_top=5
    """,
    "run_classifier.py": f"""
        {OF_TPUS} albert_config_file albert_hub_module_handle cached_dir data_dir
        deterministic_run=false do_eval=false do_lower_case=true do_predict=false do_train=false
        enable_scoped_allocator=false eval_batch_size=8 export_dir init_checkpoint input_file
        keep_checkpoint_max=5 learning_rate=5e-05 max_seq_length=512 optimizer=adamw output_dir
        predict_batch_size=8 save_checkpoints_steps=5000 save_summary_steps=1 spm_model_file
        task_name threshold_to_export=nan train_batch_size=32 train_step=1000 use_horovod=false
        vocab_file warmup_step=0
    """,
    "run_race.py": f"""
        {OF_TPUS} albert_config_file albert_hub_module_handle data_dir do_eval=true
        do_lower_case=true do_predict=false do_train=true dropout_prob=0.1 eval_batch_size=8
        eval_file high_only=false init_checkpoint learning_rate=1e-05 max_qa_length=128
        max_seq_length=512 middle_only=false num_keep_checkpoint=5 output_dir predict_batch_size=8
        predict_file save_checkpoints_steps=100 spm_model_file task_name=race train_batch_size=32
        train_file train_step=12000 vocab_file warmup_step=1000
    """,
    "run_pretraining.py": f"""
        {OF_TPUS} albert_config_file deterministic_run=false do_eval=false do_train=true
        enable_scoped_allocator=false eval_batch_size=64 eval_file init_checkpoint
        init_from_group0=false input_file keep_checkpoint_max=5 learning_rate=0.00176
        masked_lm_budget=0.0 max_eval_steps=100 max_predictions_per_seq=20 max_seq_length=512
        num_train_steps=125000 num_warmup_steps=3125 optimizer=lamb output_dir poly_power=1.0
        save_checkpoints_steps=5000 save_summary_steps=1 start_warmup_step=0 train_batch_size=4096
        use_einsum=false use_horovod=false
    """,
    "create_pretraining_data.py": """
        do_lower_case=true do_permutation=false do_whole_word_mask=true dupe_factor=40
        favor_shorter_ngram=true input_file input_file_mode=r masked_lm_prob=0.15
        max_predictions_per_seq=20 max_seq_length=512 ngram=3 output_file parallel=false
        random_next_sentence=false random_seed=12345 short_seq_prob=0.1 spm_model_file vocab_file
    """,
}
# Intended; docs/differences.md lists them.
DIFFERENT = {
    # The value in the fork's README.
    "run_squad_v1.py": "do_predict=true do_train=true num_train_epochs=2.0 output_dir=$HOME/tmp",
    # As for SQuAD 1.1.
    "run_squad_v2.py": """
        do_predict=true do_train=true num_train_epochs=2.0 output_dir=$HOME/tmp
        save_checkpoints_steps=5000
    """,
    # Google's number of steps.
    "run_classifier.py": "output_dir=$HOME/tmp save_checkpoints_steps=1000",
    "run_pretraining.py": "output_dir=$HOME/tmp",
    "run_race.py": "output_dir=$HOME/tmp",
}
OF_ALL_RUNS = """
    adam_epsilon=1e-06 allreduce_dtype=float32 device=auto elastic_resume=false
    gradient_accumulation_steps=1 gradient_checkpointing=false log_steps=100
    lr_schedule=linear overwrite_output_dir=false scale_learning_rate=false seed=12345
    shard_optimizer=none track=none weight_decay=0.01
"""
OWN_OF_SQUAD = """
    dev_fraction=0.0 dev_seed=12345 length_buckets on_bad_row=error preprocess_workers=$CORES
    trim_batches=true
"""
OWN = {
    "run_squad_v1.py": f"""
        {OF_ALL_RUNS} {OWN_OF_SQUAD} mask_padding_in_loss=true
    """,
    "run_squad_v2.py": f"""
        {OF_ALL_RUNS} {OWN_OF_SQUAD} null_score_diff_threshold optimizer=adamw
    """,
    "run_classifier.py": f"""
        {OF_ALL_RUNS} label_column=label label_separator=, label_threshold length_buckets
        multi_label=false num_train_epochs=0.0 preprocess_workers=$CORES seeds text_b_column=text_b
        text_column=text_a train_steps=1000 tsv_regression=false use_einsum=false
        warmup_proportion=0.0
    """,
    "run_race.py": f"""
        {OF_ALL_RUNS} deterministic_run=false enable_scoped_allocator=false export_dir
        keep_checkpoint_max=5 length_buckets num_train_epochs=0.0 optimizer=adamw
        preprocess_workers=$CORES save_summary_steps=1 train_steps=12000 use_einsum=false
        use_horovod=false warmup_proportion=0.0
    """,
    # The reference has no such program.
    "run_ner.py": f"""
        {OF_ALL_RUNS} deterministic_run=false do_eval=true do_lower_case=true do_predict=true
        do_train=true export_dir init_checkpoint keep_checkpoint_max=5 learning_rate=5e-05
        length_buckets max_seq_length=128 num_train_epochs=3.0 optimizer=adamw output_dir=$HOME/tmp
        predict_batch_size=8 predict_file preprocess_workers=$CORES save_checkpoints_steps=500
        spm_model_file tagging=BIO test_file train_batch_size=32 train_file train_steps=-1
        vocab_file warmup_proportion=0.1
    """,
    "run_pretraining.py": f"""
        {OF_ALL_RUNS} ngram=3 predict_batch_size=64 spm_model_file train_steps=125000 vocab_file
    """,
    "create_pretraining_data.py": "num_shards=1 preprocess_workers=$CORES",
    "sentencepiece": """
        character_coverage=0.99995 do_lower_case=true input_file input_sentence_size=10000000
        model_prefix num_threads=16 vocab_size=30000
    """,
}
VALUES = {
    "$HOME/tmp": os.path.join(os.environ.get("HOME", "."), "tmp"),
    "$CORES": str(len(os.sched_getaffinity(0))),
}


@functools.cache
def help_of(program: str, flag: str = "--helpfull") -> str:
    result = run([*command_of(program.removesuffix(".py")), flag])
    assert result.returncode == 0, result.stderr
    return result.stdout


def defaults(text: str) -> dict[str, str | None]:
    actual = {}
    _, *entries = re.split(r"^  --(?:\[no\])?(?=\w+:)", text, flags=re.MULTILINE)
    for entry in entries:
        default = re.search(r"^    \(default: '?(.*?)'?\)$", entry, re.MULTILINE)
        actual[entry.split(":")[0]] = default and default.group(1)
    return actual


@pytest.mark.parametrize("program", OWN)
def test_defaults_are_the_references_or_listed(program):
    tables = (REFERENCE.get(program, ""), DIFFERENT.get(program, ""), OWN[program])
    stated = flags_in(" ".join(tables))
    expected = {name: VALUES.get(stated[name], stated[name]) for name in stated.keys() - NO_USE}
    shown = defaults(help_of(program))
    assert {name: shown.get(name, "is no flag") for name in expected} == expected


@pytest.mark.parametrize("program", DIFFERENT)
def test_unused_flags_are_accepted_and_hidden(program):
    assert not NO_USE & {*re.findall(r"--(\w+)", help_of(program, "--help"))}
    taken = defaults_of(program[:-3])
    expected = flags_in(f"albert_hub_module_handle {OF_TPUS}")
    shown = {name: None if taken[name] is None else str(taken[name]).lower() for name in expected}
    assert shown == expected


@pytest.mark.parametrize("program", DIFFERENT)
def test_required_flags_are_marked(program):
    shown = help_of(program)
    for either in task_of(program[:-3]).required:
        for name in [either] if isinstance(either, str) else either:
            text = re.search(rf"^  --{name}: (.*?)(?=^  --)", shown, re.MULTILINE | re.DOTALL)[1]
            assert re.search("[Rr]equired|Alias for|default: ", text), f"--{name}: {text}"


def value_of(text: str | None) -> float | str | None:
    """Returns a default in a form to compare: 5e-5 is 5e-05."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


@pytest.mark.parametrize(
    ("page", "program", "at_least"),
    [
        ("flags", "run_squad_v1", 20),
        ("glue", "run_classifier", 3),
        ("race", "run_race", 8),
        ("entities", "run_ner", 3),
    ],
)
def test_defaults_in_the_pages_are_the_programs(page, program, at_least):
    """A default follows its flag: `--learning_rate` (5e-5), or `--optimizer` (adamw; or lamb)."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    text = text.replace("$HOME", os.environ["HOME"])
    stated = re.findall(r"`--(\w+)` \(`?([\w./-]+)`?[),;]", text)
    assert len(stated) >= at_least
    shown = defaults(help_of(f"{program}.py"))
    assert [value_of(shown.get(name)) for name, _ in stated] == [value_of(v) for _, v in stated]
    if page == "flags":
        # Names with hyphens are examples of how a flag may also be written.
        named = set(re.findall(r"`--(\w+)(?![\w-])", text))
        named -= {"flagfile", "help", "helpfull", "nodo_train", "version"}
        assert len(named) > 40 and named <= defaults_of(program).keys()
