"""Documents as ids, compared with the tokenizer's own functions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sentencepiece as spm

from albert import tokenization
from albert.tasks.pretraining.text import PieceEncoder, join_documents, plan_blocks

LINES = ["Axono ayono, in 1995, and 5,", "Ümlaut “quotes” — and ½, €5, 漢字 12,"]
LINES += ["", "  \t ", "\u3000", "   A   second   document. ", ""]


@pytest.fixture
def block(tmp_path):
    def block(text):
        (tmp_path / "text.txt").write_text(text, encoding="utf-8")
        return plan_blocks([str(tmp_path / "text.txt")], 10**6)[0]

    return block


@pytest.fixture
def make_tokenizer(tmp_path):
    def make_tokenizer(tokens):
        (tmp_path / "vocab.txt").write_text("\n".join(tokens))
        return tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))

    return make_tokenizer


def test_sentences_have_the_ids_that_the_tokenizer_gives(encoder, tokenizer, block):
    documents = encoder.documents(block("\n".join(LINES)))
    sentences = [documents.ids[a:b].tolist() for a, b in itertools.pairwise(documents.bounds)]
    tokens = [tokenizer.tokenize(tokenizer.normalize(line)) for line in LINES if line.strip()]
    assert sentences == list(map(tokenizer.convert_tokens_to_ids, tokens))
    assert documents.ranges == [(0, 2), (2, 3)]
    both = join_documents(documents, documents)
    assert both.ranges == [(0, 2), (2, 3), (3, 5), (5, 6)]
    np.testing.assert_array_equal(both.ids, np.tile(documents.ids, 2))
    first, second = both.bounds[3], both.bounds[5]
    np.testing.assert_array_equal(both.ids[first:second], documents.ids[: documents.bounds[2]])


@pytest.mark.parametrize("word", ["bxono", "5,"], ids=["unknown", "a piece"])
def test_a_comma_after_a_digit_is_a_separate_token(tmp_path, block, word):
    """The id of an unknown token does not show that it ends in a digit."""
    options = {"vocab_size": 40, "hard_vocab_limit": False, "minloglevel": 2}
    options |= {"split_by_unicode_script": False, "split_by_number": False}
    options |= {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "model_prefix": f"{tmp_path}/spm"}
    sentences = iter(20 * ["axono ayono"] + 50 * [word])
    spm.SentencePieceTrainer.train(sentence_iterator=sentences, **options)
    tokenizer = tokenization.FullTokenizer(None, True, str(tmp_path / "spm.model"))
    ids = PieceEncoder(tokenizer).documents(block("axono 5, ayono")).ids.tolist()
    careless = tokenizer.sp_model.encode("axono 5, ayono")
    assert ("▁5," in tokenizer.convert_ids_to_tokens(careless)) == (word == "5,")
    pieces = tokenizer.tokenize("axono 5, ayono")
    assert ids == tokenizer.convert_tokens_to_ids(pieces) != careless


def test_words_begin_where_the_tokenizer_says(encoder, tokenizer, make_tokenizer, block):
    assert encoder.begins_word.tolist() == [tokenizer.begins_word(p) for p in tokenizer.vocab]
    assert 0 < encoder.begins_word.sum() < len(encoder.begins_word) == tokenizer.size
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "."]
    encoder = PieceEncoder(make_tokenizer(tokens))
    assert encoder.begins_word.tolist() == [token != "##ing" for token in tokens]
    documents = encoder.documents(block("Playing.\n\nPlay\n"))
    assert documents.ids.tolist() == [5, 6, 7, 5]
    assert documents.bounds == [0, 3, 4]
