"""The reference's names, as far as code written for it may import them, with their arguments.

This includes `modeling`, `squad_utils` and similar of google-research/albert; docs/differences.md
lists what is missing.
"""

import importlib
import inspect
import os
import re
import sys

import pytest
import tensorflow.compat.v1 as tf

from albert import classifier_utils, fine_tuning_utils, lamb_optimizer, optimization, tokenization
from tests.helpers.classification import CONFIG
from tests.helpers.forking import ROOT
from tests.helpers.running import run, succeed

# Arguments and defaults; this project may have more, keyword-only.
SIGNATURES = """
modeling:
  assert_rank(tensor, expected_rank, name=None)
  attention_layer(from_tensor, to_tensor, attention_mask=None, num_attention_heads=1,
    query_act=None, key_act=None, value_act=None, attention_probs_dropout_prob=0.0,
    initializer_range=0.02, batch_size=None, from_seq_length=None, to_seq_length=None,
    use_einsum=True)
  create_initializer(initializer_range=0.02)
  dropout(input_tensor, dropout_prob)
  einsum_via_matmul(input_tensor, w, num_inner_dims)
  embedding_lookup(input_ids, vocab_size, embedding_size=128, initializer_range=0.02,
    word_embedding_name='word_embeddings', use_one_hot_embeddings=False)
  embedding_postprocessor(input_tensor, use_token_type=False, token_type_ids=None,
    token_type_vocab_size=16, token_type_embedding_name='token_type_embeddings',
    use_position_embeddings=True, position_embedding_name='position_embeddings',
    initializer_range=0.02, max_position_embeddings=512, dropout_prob=0.1,
    use_one_hot_embeddings=True)
  get_activation(activation_string)
  get_assignment_map_from_checkpoint(tvars, init_checkpoint, num_of_group=0)
  get_shape_list(tensor, expected_rank=None, name=None)
  layer_norm(input_tensor, name=None)
  layer_norm_and_dropout(input_tensor, dropout_prob, name=None)
  reshape_from_matrix(output_tensor, orig_shape_list)
  reshape_to_matrix(input_tensor)
  transformer_model(input_tensor, attention_mask=None, hidden_size=768, num_hidden_layers=12,
    num_hidden_groups=12, num_attention_heads=12, intermediate_size=3072, inner_group_num=1,
    intermediate_act_fn='gelu', hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1,
    initializer_range=0.02, do_return_all_layers=False, use_einsum=True)
optimization:
  create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps, use_tpu, optimizer='adamw',
    poly_power=1.0, start_warmup_step=0, colocate_gradients_with_ops=False, excluded_tvars=None)
lamb_optimizer:
  LAMBOptimizer(learning_rate, weight_decay_rate=0.0, beta_1=0.9, beta_2=0.999, epsilon=1e-06,
    exclude_from_weight_decay=None, exclude_from_layer_adaptation=None, name='LAMBOptimizer')
fine_tuning_utils:
  create_albert(albert_config, is_training, input_ids, input_mask, segment_ids,
    use_one_hot_embeddings, use_einsum, hub_module)
  create_vocab(vocab_file, do_lower_case, spm_model_file, hub_module)
squad_utils:
  accumulate_predictions_v1(result_dict, all_examples, all_features, all_results, n_best_size,
    max_answer_length)
  accumulate_predictions_v2(result_dict, cls_dict, all_examples, all_features, all_results,
    n_best_size, max_answer_length, start_n_top, end_n_top)
  apply_no_ans_threshold(scores, na_probs, qid_to_has_ans, na_prob_thresh)
  compute_exact(a_gold, a_pred)
  compute_f1(a_gold, a_pred)
  convert_examples_to_features(examples, tokenizer, max_seq_length, doc_stride, max_query_length,
    is_training, output_fn, do_lower_case)
  create_v1_model(albert_config, is_training, input_ids, input_mask, segment_ids,
    use_one_hot_embeddings, use_einsum, hub_module)
  create_v2_model(albert_config, is_training, input_ids, input_mask, segment_ids,
    use_one_hot_embeddings, features, max_seq_length, start_n_top, end_n_top, dropout_prob,
    hub_module)
  evaluate_v1(dataset, predictions)
  evaluate_v2(result_dict, cls_dict, prediction_json, eval_examples, eval_features, all_results,
    n_best_size, max_answer_length, output_prediction_file, output_nbest_file,
    output_null_log_odds_file)
  exact_match_score(prediction, ground_truth)
  f1_score(prediction, ground_truth)
  FeatureWriter(filename, is_training)
  find_all_best_thresh(main_eval, preds, exact_raw, f1_raw, na_probs, qid_to_has_ans)
  find_best_thresh(preds, scores, na_probs, qid_to_has_ans)
  get_raw_scores(dataset, preds)
  get_tokens(s)
  input_fn_builder(input_file, seq_length, is_training, drop_remainder, use_tpu, bsz, is_v2)
  make_eval_dict(exact_scores, f1_scores, qid_list=None)
  make_qid_to_has_ans(dataset)
  merge_eval(main_eval, new_eval, prefix)
  metric_max_over_ground_truths(metric_fn, prediction, ground_truths)
  normalize_answer_v1(s)
  normalize_answer_v2(s)
  read_squad_examples(input_file, is_training)
  v1_model_fn_builder(albert_config, init_checkpoint, learning_rate, num_train_steps,
    num_warmup_steps, use_tpu, use_one_hot_embeddings, use_einsum, hub_module)
  v2_model_fn_builder(albert_config, init_checkpoint, learning_rate, num_train_steps,
    num_warmup_steps, use_tpu, use_one_hot_embeddings, max_seq_length, start_n_top, end_n_top,
    dropout_prob, hub_module)
  write_predictions_v2(result_dict, cls_dict, all_examples, all_features, all_results, n_best_size,
    max_answer_length, output_prediction_file, output_nbest_file, output_null_log_odds_file,
    null_score_diff_threshold)
  write_predictions_v1(result_dict, all_examples, all_features, all_results, n_best_size,
    max_answer_length, output_prediction_file, output_nbest_file)
classifier_utils:
  convert_examples_to_features(examples, label_list, max_seq_length, tokenizer, task_name)
  convert_single_example(ex_index, example, label_list, max_seq_length, tokenizer, task_name)
  create_model(albert_config, is_training, input_ids, input_mask, segment_ids, labels, num_labels,
    use_one_hot_embeddings, task_name, hub_module)
  DataProcessor(use_spm, do_lower_case)
  file_based_convert_examples_to_features(examples, label_list, max_seq_length, tokenizer,
    output_file, task_name)
  file_based_input_fn_builder(input_file, seq_length, is_training, drop_remainder, task_name,
    use_tpu, bsz, multiple=1)
  input_fn_builder(features, seq_length, is_training, drop_remainder)
  InputExample(guid, text_a, text_b=None, label=None)
  InputFeatures(input_ids, input_mask, segment_ids, label_id, guid=None, example_id=None,
    is_real_example=True)
  model_fn_builder(albert_config, num_labels, init_checkpoint, learning_rate, num_train_steps,
    num_warmup_steps, use_tpu, use_one_hot_embeddings, task_name, hub_module=None,
    optimizer='adamw')
race_utils:
  convert_single_example(example_index, example, label_size, max_seq_length, tokenizer,
    max_qa_length)
  create_model(albert_config, is_training, input_ids, input_mask, segment_ids, labels, num_labels,
    use_one_hot_embeddings, max_seq_length, dropout_prob, hub_module)
  file_based_convert_examples_to_features(examples, label_list, max_seq_length, tokenizer,
    output_file, max_qa_length)
  file_based_input_fn_builder(input_file, seq_length, is_training, drop_remainder, task_name,
    use_tpu, bsz, multiple=1)
  InputExample(example_id, context_sentence, start_ending, endings, label=None)
  model_fn_builder(albert_config, num_labels, init_checkpoint, learning_rate, num_train_steps,
    num_warmup_steps, use_tpu, use_one_hot_embeddings, max_seq_length, dropout_prob, hub_module)
  RaceProcessor(use_spm, do_lower_case, high_only, middle_only)
"""
# Their arguments do not matter.
OTHERS = {
    "squad_utils": {"InputFeatures", "RawResult", "RawResultV2", "SquadExample"},
    "classifier_utils": {
        "PaddingInputExample",
        *("MnliProcessor", "MisMnliProcessor", "MrpcProcessor", "ColaProcessor", "Sst2Processor"),
        *("StsbProcessor", "QqpProcessor", "QnliProcessor", "RteProcessor", "WnliProcessor"),
        "AXProcessor",
    },
}


def signatures():
    """Yields module, name and arguments of each."""
    for section in re.split(r"^(?=\w)", SIGNATURES.strip(), flags=re.MULTILINE):
        module, _, text = section.partition(":")
        for name, arguments in re.findall(r"(\w+)\((.*?)\)$", text, re.DOTALL | re.MULTILINE):
            yield module, name, " ".join(arguments.split())


@pytest.mark.parametrize(("module", "name", "arguments"), signatures())
def test_arguments_are_the_references(module, name, arguments):
    function = getattr(importlib.import_module(module), name)
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    text = ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in positional
    )
    assert text == arguments
    for other in parameters:
        is_optional = other.kind is other.KEYWORD_ONLY and other.default is not other.empty
        assert other in positional or is_optional or other.kind is other.VAR_KEYWORD


def test_every_name_is_exported():
    """This includes processors and their methods."""
    for module in ("squad_utils", "classifier_utils", "race_utils", "lamb_optimizer"):
        names = {name for place, name, _ in signatures() if place == module}
        assert set(importlib.import_module(module).__all__) == names | OTHERS.get(module, set())
    for name in OTHERS["classifier_utils"] - {"PaddingInputExample"}:
        processor = getattr(classifier_utils, name)(use_spm=True, do_lower_case=True)
        for part in ("train", "dev", "test"):
            method = getattr(processor, f"get_{part}_examples")
            assert list(inspect.signature(method).parameters) == ["data_dir"]
        assert isinstance(processor, classifier_utils.DataProcessor)
        assert isinstance(processor.get_labels(), list)


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [("use_tpu", True, "TPU"), ("hub_module", "hub", "not supported; pass init_checkpoint")],
)
def test_tpu_and_hub_modules_are_refused(argument, value, words):
    """Through every function to which the reference passes them."""
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.zeros([1, 8], tf.int32))
    usable, refusing = {"albert_config": CONFIG, "num_labels": 4, **ids}, 0
    for module, name, arguments in signatures():
        names = [text.partition("=")[0] for text in arguments.split(", ")]
        if argument in names:
            given = {**dict.fromkeys(names), **usable, argument: value}
            with pytest.raises(ValueError, match=words):
                getattr(importlib.import_module(module), name)(*map(given.get, names))
            refusing += 1
    assert refusing > 5


def test_optimizer_and_tokenizer_are_those_of_the_programs(squad_dir):
    assert lamb_optimizer.LAMBOptimizer is optimization.LAMBOptimizer
    path = str(squad_dir / "spm.model")
    tokenizer = fine_tuning_utils.create_vocab(None, True, path, None)
    expected = tokenization.FullTokenizer(None, True, path)
    assert tokenizer.tokenize("what comes after") == expected.tokenize("what comes after")
    assert tokenizer.vocab == expected.vocab


# One program is enough: those of a process share its flags.
ROOT_NAMES = ["run_race"]
ROOT_NAMES += sorted(p.stem for p in ROOT.glob("*.py") if "__main__" not in p.read_text())


@pytest.mark.parametrize(
    ("first", "in_root"), [("", True), pytest.param("albert.", False, marks=pytest.mark.slow)]
)
def test_a_root_name_is_the_packages_module(first, in_root, tmp_path):
    """In either order of import: patches, private names and graph collections are shared."""
    assert len(ROOT_NAMES) == 9
    text = f"import importlib\nfor name in {ROOT_NAMES}:\n"
    text += f"    one = importlib.import_module({first!r} + name)\n"
    text += "    exec(f'import {name} as of_root; from albert import {name} as of_package')\n"
    text += "    assert one is of_root is of_package, name\n"
    environment = {**os.environ, "PYTHONPATH": "" if in_root else str(ROOT)}
    succeed([sys.executable, "-c", text], cwd=ROOT if in_root else tmp_path, env=environment)


def test_names_of_other_packages_are_not_shadowed(tmp_path):
    """Python started in the root finds the installed packages, not modules of this project."""
    names = "evaluate", "weights", "squad", "glue", "race", "serving", "runtime", "sample"
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    text = f"import {', '.join(names)}; print(*(m.__file__ for m in ({', '.join(names)})))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = run([sys.executable, "-c", text], cwd=ROOT, env=environment)
    assert result.stdout.split() == [str(tmp_path / name / "__init__.py") for name in names]
