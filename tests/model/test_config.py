"""Configurations: defaults, files, the model family, and impossible values."""

import json
import math

import pytest

from albert.core.errors import UserError
from albert.model.config import AlbertConfig, BertConfig, read_config

BERT = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3}
BERT |= {"intermediate_size": 40}
ALBERT = {**BERT, "embedding_size": 12}


def test_defaults_are_the_published_ones_and_json_keeps_unknown_keys(write):
    values = {"vocab_size": 99, "hidden_size": 128, "net_structure_type": 0, "note": ["ä", None]}
    config = AlbertConfig.from_json_file(write(json.dumps(values).encode("utf-8-sig")))
    assert (config.hidden_size, config.net_structure_type) == (128, 0)
    restored = json.loads(config.to_json_string())
    assert restored == {**AlbertConfig(vocab_size=99).to_dict(), **values}
    assert AlbertConfig.from_dict(restored).to_dict() == restored
    # The returned dictionary is a copy.
    config.to_dict()["note"].append(2)
    assert config.note == ["ä", None]
    common = {"num_hidden_layers": 12, "hidden_act": "gelu", "initializer_range": 0.02}
    common |= {"max_position_embeddings": 512}
    albert = {"vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096}
    albert |= {"num_hidden_groups": 1, "num_attention_heads": 64, "intermediate_size": 16384}
    albert |= {"inner_group_num": 1, "down_scale_factor": 1, "type_vocab_size": 2}
    albert |= {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    assert AlbertConfig(vocab_size=30000).to_dict() == {**common, **albert}
    bert = {"vocab_size": 30522, "hidden_size": 768, "num_attention_heads": 12}
    bert |= {"intermediate_size": 3072, "type_vocab_size": 16}
    bert |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = BertConfig(vocab_size=30522)
    assert config.to_dict() == {**common, **bert}
    assert (config.embedding_size, config.num_hidden_groups, config.inner_group_num) == (768, 12, 1)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": 30, "num_attention_heads": 4}, "hidden_size 30"),
        ({"max_position_embeddings": 0}, "max_position_embeddings.*0"),
        ({"num_hidden_layers": 12.0}, "num_hidden_layers.*12.0"),
        ({"num_hidden_layers": True}, "num_hidden_layers.*True"),
        ({"vocab_size": None}, "vocab_size.*None"),
        ({"embedding_size": "128"}, "embedding_size.*'128'"),
        ({"num_hidden_layers": 2, "num_hidden_groups": 3}, "num_hidden_groups 3"),
        ({"hidden_dropout_prob": 1}, "hidden_dropout_prob.*1"),
        ({"attention_probs_dropout_prob": -0.1}, "attention_probs_dropout_prob.*-0.1"),
        ({"hidden_act": "swoosh"}, "swoosh"),
        ({"hidden_size": 10**12}, "hidden_size must be .* 16777216 at most"),
        ({"num_hidden_layers": 40, "inner_group_num": 40}, "num_hidden_layers 40 times inner"),
        ({"initializer_range": math.inf}, "initializer_range must be positive and finite, not inf"),
        ({"initializer_range": math.nan}, "initializer_range .* not nan"),
        ({"to_dict": 1}, "'to_dict' cannot be the name of a value"),
        ({"__class__": {}}, "'__class__' cannot be the name"),
    ],
)
def test_file_with_impossible_values_is_an_error(changes, named, write):
    with pytest.raises(UserError, match=rf"/file.*{named}"):
        AlbertConfig.from_json_file(write({**ALBERT, **changes}))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (BERT, BertConfig),
        ({**BERT, "model_type": "bert", "pooler_type": "first_token_transform"}, BertConfig),
        (ALBERT, AlbertConfig),
        ({**BERT, "num_hidden_groups": 1}, AlbertConfig),
        ({"vocab_size": 9, "embedding_size": 8, "model_type": "albert"}, AlbertConfig),
    ],
)
def test_the_keys_tell_albert_from_bert(values, expected, write):
    config = read_config(write(values))
    assert type(config) is expected
    # The key of `transformers` names the family; it is not kept.
    kept = {name: value for name, value in values.items() if name != "model_type"}
    assert kept.items() <= config.to_dict().items()


@pytest.mark.parametrize(
    ("read", "values", "message"),
    [
        (read_config, {}, "nor of BERT: vocab_size, .*, intermediate_size are missing"),
        (read_config, {**BERT, "hidden_size": ...}, "BERT: hidden_size is missing"),
        (read_config, {"vocab_size": 9, "n_layer": 1}, "not a configuration of ALBERT, .*nor of B"),
        (read_config, {**BERT, "model_type": "roberta"}, "unsupported model_type 'roberta'"),
        (read_config, {**ALBERT, "model_type": "electra"}, "unsupported model_type 'electra'"),
        (read_config, {**BERT, "hidden_size": 25}, "hidden_size 25 is not a multiple"),
        (AlbertConfig.from_json_file, BERT, "a configuration of BERT, but one of ALBERT is needed"),
        (BertConfig.from_json_file, ALBERT, "a configuration of ALBERT, but one of BERT is needed"),
    ],
)
def test_a_configuration_of_another_model_is_an_error(read, values, message, write):
    with pytest.raises(UserError, match=f"/file.*{message}"):
        read(write({name: value for name, value in values.items() if value is not ...}))
