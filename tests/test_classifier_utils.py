"""The reference's names of classification functions: all there, with its arguments."""

import inspect

import pytest

import classifier_utils

# Arguments and defaults of google-research/albert; ours may have more, by keyword only.
SIGNATURES = {
    "InputExample": "guid, text_a, text_b=None, label=None",
    "InputFeatures": "input_ids, input_mask, segment_ids, label_id, guid=None, example_id=None, "
    "is_real_example=True",
    "DataProcessor": "use_spm, do_lower_case",
    "convert_single_example": "ex_index, example, label_list, max_seq_length, tokenizer, task_name",
    "file_based_convert_examples_to_features": "examples, label_list, max_seq_length, tokenizer, "
    "output_file, task_name",
    "file_based_input_fn_builder": "input_file, seq_length, is_training, drop_remainder, "
    "task_name, use_tpu, bsz, multiple=1",
    "create_model": "albert_config, is_training, input_ids, input_mask, segment_ids, labels, "
    "num_labels, use_one_hot_embeddings, task_name, hub_module",
    "model_fn_builder": "albert_config, num_labels, init_checkpoint, learning_rate, "
    "num_train_steps, num_warmup_steps, use_tpu, use_one_hot_embeddings, task_name, "
    "hub_module=None, optimizer='adamw'",
}
PROCESSORS = "Mnli MisMnli Mrpc Cola Sst2 Stsb Qqp Qnli Rte Wnli AX".split()  # noqa: SIM905


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments(name):
    parameters = inspect.signature(getattr(classifier_utils, name)).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    text = ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in positional
    )
    assert text == SIGNATURES[name]
    others = [p for p in parameters if p not in positional]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in others)


@pytest.mark.parametrize("name", PROCESSORS)
def test_processors(name):
    processor = getattr(classifier_utils, f"{name}Processor")(use_spm=True, do_lower_case=True)
    for method in ("get_train_examples", "get_dev_examples", "get_test_examples"):
        assert list(inspect.signature(getattr(processor, method)).parameters) == ["data_dir"]
    assert isinstance(processor, classifier_utils.DataProcessor)
    assert isinstance(processor.get_labels(), list)


def test_every_name_is_exported():
    names = {*SIGNATURES, *(f"{name}Processor" for name in PROCESSORS), "PaddingInputExample"}
    assert set(classifier_utils.__all__) == names
