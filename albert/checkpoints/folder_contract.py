"""Tells what is done with each key in a folder of `transformers` or sentence-transformers.

`FILES` has a row for each known key: the values that this project computes; others are an error.
Keys without effect here, such as those of decoding, may have any value. Any other key is named in a
warning.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import read_object

CONFIG, TOKENIZER, TOKENIZER_JSON = "config.json", "tokenizer_config.json", "tokenizer.json"
SPECIAL_TOKENS, ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"
MODULES, LENGTH, POOLING = "modules.json", "sentence_bert_config.json", "the pooling"
PROMPTS, OWN = "config_sentence_transformers.json", "model.json"


class Row(NamedTuple):
    """The values of a key that this project computes: in words, and as a test."""

    needed: str
    allows: Callable[[Any], bool]


def _only(*values: object) -> Row:
    return Row(" or ".join(map(repr, values)), lambda value: value in values)


def _is(kind: type) -> Callable[[Any], bool]:
    # True and false are integers for Python only.
    return lambda value: isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _all(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _each(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(test, value.values()))


def _by_id(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _each(test)(value) and all(re.fullmatch("[0-9]+", key) for key in value)


def _is_token(value: Any) -> bool:
    if not isinstance(value, dict):
        return isinstance(value, str)
    flags = [value.get(name, False) for name in ("lstrip", "rstrip", "single_word", "normalized")]
    is_known = isinstance(value.get("content"), str) and _is(int)(value.get("id", 0))
    return is_known and value["content"] != "" and all(map(_is(bool), flags))


def _special(*contents: str) -> Row:
    def content(value: Any) -> str:
        return "" if not _is_token(value) else value if isinstance(value, str) else value["content"]

    return Row(" or ".join(contents), lambda value: content(value) in contents)


def _rows(names: str, row: Row) -> dict[str, Row]:
    return dict.fromkeys(names.split(), row)


_TEXT, _TRUTH, _OBJECT = Row("a text", _is(str)), Row("true or false", _is(bool)), _is(dict)
_SIZE = Row("a positive integer", lambda value: _is(int)(value) and value > 0)
_LONGEST = Row("an integer of at least 3", lambda value: _is(int)(value) and value > 2)
_NUMBER = Row("a positive number", lambda v: (_is(float)(v) or _is(int)(v)) and v > 0)
_SHARE = Row("a number from 0 to 1", lambda v: (_is(float)(v) or _is(int)(v)) and 0 <= v <= 1)
_NONE = Row("none", lambda value: not value)
_TEXTS = Row("a list of texts", _all(_is(str)))
_TOKEN, _TOKENS = Row("a token", _is_token), Row("a list of tokens", _all(_is_token))
# Early files have no direction.
_RIGHT = Row(
    "Right as its direction", lambda v: _OBJECT(v) and v.get("direction", "Right") == "Right"
)
_SPECIAL_ROWS = {
    "cls_token": _special("[CLS]"),
    "sep_token": _special("[SEP]"),
    "mask_token": _special("[MASK]"),
    "unk_token": _special("[UNK]", "<unk>"),
    "pad_token": _special("[PAD]", "<pad>"),
    **_rows("bos_token eos_token", _TOKEN),
    "additional_special_tokens": _TOKENS,
}
_NORMALIZATION = _rows("do_lower_case strip_accents keep_accents tokenize_chinese_chars", _TRUTH)
# Keys of which any value is right, which are checked where they are used, or which change nothing
# here: parts of other models, decoding, training, and how files were made.
_ANY = Row("", lambda value: True)
_OF_OTHERS = "_name_or_path transformers_version torch_dtype dtype use_cache classifier_dropout \
classifier_dropout_prob pad_token_id bos_token_id eos_token_id sep_token_id cls_token_id \
mask_token_id decoder_start_token_id gradient_checkpointing directionality pooler_fc_size \
pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type \
net_structure_type down_scale_factor gap_size num_memory_blocks layers_to_keep output_past \
output_attentions output_hidden_states return_dict torchscript use_bfloat16 tie_word_embeddings \
chunk_size_feed_forward finetuning_task language name _commit_hash _attn_implementation \
attn_implementation _attn_implementation_autoset tf_legacy_loss prefix max_length min_length \
do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p \
typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size \
bad_words_ids num_return_sequences output_scores return_dict_in_generate forced_bos_token_id \
forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens \
begin_suppress_tokens cross_attention_hidden_size tie_encoder_decoder sentence_transformers"
FILES: dict[str, dict[str, Row]] = {
    CONFIG: {
        **_rows(_OF_OTHERS, _ANY),
        **_rows("vocab_size hidden_size num_hidden_layers num_attention_heads", _ANY),
        **_rows("embedding_size num_hidden_groups inner_group_num intermediate_size", _ANY),
        **_rows("max_position_embeddings type_vocab_size model_type hidden_act", _ANY),
        "layer_norm_eps": _only(1e-12),
        "position_embedding_type": _only("absolute"),
        **_rows("is_decoder is_encoder_decoder add_cross_attention", _only(False)),
        **_rows("pruned_heads auto_map quantization_config", _NONE),
        **_rows("hidden_dropout_prob attention_probs_dropout_prob", _SHARE),
        "initializer_range": Row("a number", lambda v: _NUMBER.allows(v) or v in (0, 0.0)),
        "architectures": _TEXTS,
        "id2label": Row(
            "a name for each id", _by_id(lambda v: any(_is(kind)(v) for kind in (str, int, float)))
        ),
        **_rows("label2id task_specific_params", Row("an object", _OBJECT)),
        "num_labels": _SIZE,
        **_rows("problem_type tokenizer_class", _TEXT),
    },
    TOKENIZER: {
        **_SPECIAL_ROWS,
        **_NORMALIZATION,
        "tokenizer_class": _TEXT,
        "model_max_length": _NUMBER,
        "added_tokens_decoder": Row("a token for each id", _by_id(_is_token)),
        "extra_special_tokens": Row("tokens", lambda v: _each(_is_token)(v) or _TOKENS.allows(v)),
        **_rows("do_basic_tokenize remove_space", _only(True)),
        "never_split": _only([]),
        **_rows("truncation_side padding_side", _only("right")),
        **_rows("split_special_tokens add_prefix_space", _only(False)),
        "model_input_names": Row(
            "a list with token_type_ids", lambda v: _TEXTS.allows(v) and "token_type_ids" in v
        ),
        **_rows("auto_map sp_model_kwargs word_tokenizer_type subword_tokenizer_type", _NONE),
        **_rows("do_word_tokenize mecab_kwargs sudachi_kwargs jumanpp_kwargs", _NONE),
        **_rows("name_or_path special_tokens_map_file tokenizer_file vocab_file max_length", _ANY),
        **_rows("clean_up_tokenization_spaces clean_text truncation_strategy truncation", _ANY),
        **_rows("padding use_fast legacy pad_to_multiple_of pad_token_type_id backend", _ANY),
        **_rows("stride is_local max_len init_inputs processor_class", _ANY),
    },
    SPECIAL_TOKENS: _SPECIAL_ROWS,
    # `tokenizer_json.py` computes or refuses what these objects say.
    TOKENIZER_JSON: {
        **_rows("normalizer pre_tokenizer post_processor model", Row("an object", _OBJECT)),
        "added_tokens": _TOKENS,
        **_rows("truncation padding", _RIGHT),
        **_rows("version decoder", _ANY),
    },
    ADDED_TOKENS: {},
    LENGTH: {
        "max_seq_length": _LONGEST,
        "do_lower_case": _TRUTH,
        "transformer_task": _only("feature-extraction"),
        "module_output_name": _only("token_embeddings"),
        "modality_config": _only(
            {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
        ),
        **_rows("processing_kwargs unpad_inputs model_args config_args tokenizer_args", _NONE),
    },
    PROMPTS: {
        "prompts": Row("an object of texts", _each(lambda v: v is None or isinstance(v, str))),
        "default_prompt_name": _TEXT,
        "model_type": _only("SentenceTransformer"),
        "truncate_dim": _NONE,
        **_rows("__version__ similarity_fn_name", _ANY),
    },
    POOLING: {
        "include_prompt": _TRUTH,
        **_rows("pooling_mode word_embedding_dimension embedding_dimension", _ANY),
        **_rows("pooling_mode_cls_token pooling_mode_mean_tokens", _TRUTH),
        **_rows("pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens", _TRUTH),
        **_rows("pooling_mode_weightedmean_tokens pooling_mode_lasttoken", _TRUTH),
    },
    # What this project writes about a model; a converted model has it in config.json.
    OWN: {
        **_NORMALIZATION,
        "max_seq_length": _LONGEST,
        **_rows("doc_stride max_query_length max_answer_length n_best_size", _SIZE),
        **_rows("start_n_top end_n_top max_qa_length", _SIZE),
        "labels": Row("a list of texts", _all(lambda v: v is None or isinstance(v, str))),
        "label_threshold": _SHARE,
        **_rows("multi_label mask_padding_in_loss", _TRUTH),
        **_rows("tokenizer_rules long_texts", _TEXT),
    },
}


def read_checked(path: str, name: str, what: str) -> dict[str, Any]:
    """Reads a JSON object and returns its values without null; {} without the file.

    `name` is that in `FILES`; for `what` and the errors see `read_object` and `checked`.
    """
    if not os.path.exists(path):
        return {}
    return checked(read_object(path, what), name, path)


def checked(values: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    """Returns the values; those of others without null, which is no value in their files.

    Warns once about keys that nobody here knows. Raises a `UserError` for a value with which a
    model computes something else.
    """
    rows, is_own = FILES[name], name == OWN
    given = {key: v for key, v in values.items() if v is not None or is_own}
    for key, row in rows.items():
        needs_value = row in (_SIZE, _LONGEST)
        if key in given and not row.allows(given[key]) and (needs_value or given[key] is not None):
            raise UserError(
                f"{path}: unsupported {key} {given[key]!r:.80}; supported: {row.needed}"
                + ", because this project would compute something else" * (not is_own)
            )
    if not is_own and (unknown := ", ".join(sorted(given.keys() - rows.keys()))):
        _warn_once(f"{path} has {unknown}, which this project does not know and ignores")
    return given


_warn_once = functools.cache(tf.logging.warning)
