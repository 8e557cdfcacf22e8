"""Documents as ids, against the tokenizer's own functions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sentencepiece as spm

import tokenization
from pretraining.documents import Encoder, join_documents
from pretraining.text import plan_blocks
from runtime.errors import UserError

LINES = [
    "Axono ayono, in 1995, and 5,",
    "Ümlaut “quotes” — and ½, €5, 漢字 12,",
    "",
    "  \t ",
    "\u3000",
    "   A   second   document. ",
    "",
]


@pytest.fixture
def documents(encoder, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    (block,) = plan_blocks([str(tmp_path / "text.txt")], 10**6)
    return encoder.documents(block)


def test_sentences_have_the_ids_that_the_tokenizer_gives(documents, tokenizer):
    sentences = [documents.ids[a:b].tolist() for a, b in itertools.pairwise(documents.bounds)]
    expected = [
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(tokenizer.normalize(line)))
        for line in LINES
        if line.strip()
    ]
    assert sentences == expected
    assert documents.ranges == [(0, 2), (2, 3)]


@pytest.mark.parametrize("word", ["bxono", "5,"], ids=["unknown", "a piece"])
def test_a_token_that_ends_in_a_digit_and_a_comma(tmp_path, word):
    """The comma is a token of its own then; of an unknown token its id does not show it."""
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(20 * ["axono ayono"] + 50 * [word]),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=40,
        hard_vocab_limit=False,
        split_by_unicode_script=False,
        split_by_number=False,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
    )
    tokenizer = tokenization.FullTokenizer(None, True, str(tmp_path / "spm.model"))
    (tmp_path / "text.txt").write_text("axono 5, ayono")
    (block,) = plan_blocks([str(tmp_path / "text.txt")], 10**6)
    found = Encoder(tokenizer).documents(block).ids.tolist()
    careless = tokenizer.sp_model.encode("axono 5, ayono")
    assert ("▁5," in tokenizer.convert_ids_to_tokens(careless)) == (word == "5,")
    pieces = tokenizer.tokenize("axono 5, ayono")
    assert found == tokenizer.convert_tokens_to_ids(pieces) != careless


def test_joined_documents_are_those_of_both(documents):
    both = join_documents(documents, documents)
    assert both.ranges == [(0, 2), (2, 3), (3, 5), (5, 6)]
    np.testing.assert_array_equal(both.ids, np.tile(documents.ids, 2))
    first, second = both.bounds[3], both.bounds[5]
    np.testing.assert_array_equal(both.ids[first:second], documents.ids[: documents.bounds[2]])


def test_where_words_begin(encoder, tokenizer):
    assert encoder.begins_word.shape == (tokenizer.size,)
    assert encoder.begins_word.tolist() == [tokenizer.begins_word(p) for p in tokenizer.vocab]
    assert 0 < encoder.begins_word.sum() < tokenizer.size


def test_where_wordpiece_words_begin(tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    encoder = Encoder(tokenizer)
    assert encoder.begins_word.tolist() == [token != "##ing" for token in tokens]
    (tmp_path / "text.txt").write_text("Playing.\n\nPlay\n")
    documents = encoder.documents(plan_blocks([str(tmp_path / "text.txt")], 100)[0])
    assert documents.ids.tolist() == [5, 6, 7, 5]
    assert documents.bounds == [0, 3, 4]


@pytest.mark.parametrize("missing", ["[CLS]", "[SEP]", "[MASK]", "[UNK]"])
def test_missing_special_tokens_are_named(tmp_path, missing):
    tokens = [t for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "x") if t != missing]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(UserError, match=rf"vocab\.txt has no piece \{missing}"):
        encoder = Encoder(tokenization.FullTokenizer(str(tmp_path / "vocab.txt")))
        encoder.documents(plan_blocks([str(tmp_path / "text.txt")], 100)[0])
