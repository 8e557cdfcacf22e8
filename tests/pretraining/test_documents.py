"""Documents as ids, against the tokenizer's own functions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sentencepiece as spm

import tokenization
from pretraining.documents import Encoder, joined
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
        tokenization.encode_ids(tokenizer.sp_model, tokenization.preprocess_text(line, lower=True))
        for line in LINES
        if line.strip()
    ]
    assert sentences == expected
    assert documents.ranges == [(0, 2), (2, 3)]


@pytest.fixture(scope="module")
def letters_only(tmp_path_factory):
    """A tokenizer that knows neither digits nor commas: what it does not know is one token."""
    prefix = str(tmp_path_factory.mktemp("letters") / "spm")
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["axono ayono", "bxono byono"] * 20),
        model_prefix=prefix,
        vocab_size=30,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
    )
    return tokenization.FullTokenizer(None, True, prefix + ".model")


def test_an_unknown_token_may_end_in_a_digit_and_a_comma(letters_only, tmp_path):
    """Which its id does not show; the comma is a token of its own then."""
    line = "axono 5, ayono"
    (tmp_path / "text.txt").write_text(line)
    (block,) = plan_blocks([str(tmp_path / "text.txt")], 10**6)
    found = Encoder(letters_only, True).documents(block).ids.tolist()
    model = letters_only.sp_model
    assert found == tokenization.encode_ids(model, line)
    assert found != model.encode(line)


def test_joined_documents_are_those_of_both(documents):
    both = joined(documents, documents)
    assert both.ranges == [(0, 2), (2, 3), (3, 5), (5, 6)]
    np.testing.assert_array_equal(both.ids, np.tile(documents.ids, 2))
    first, second = both.bounds[3], both.bounds[5]
    np.testing.assert_array_equal(both.ids[first:second], documents.ids[: documents.bounds[2]])


@pytest.mark.parametrize(
    ("piece", "begins"),
    [
        ("▁the", True),
        ("▁", True),
        ("<unk>", True),
        (".", True),
        ("s", False),
        ("S", False),
        ("...", False),
        # The reference's list of signs has no apostrophe.
        ("n't", True),
        ("5", True),
        ("ß", True),
        ("€", True),
        ("[MASK]", False),
    ],
)
def test_where_words_begin(tokenizer, piece, begins):
    """As `_is_start_piece_sp` of the reference decides."""
    model = with_vocabulary(["[CLS]", "[SEP]", "[MASK]", piece], tokenizer.sp_model)
    assert Encoder(model, True).begins_word[model.vocab[piece]] == begins


def test_where_wordpiece_words_begin(tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    encoder = Encoder(tokenizer, True)
    assert encoder.begins_word.tolist() == [token != "##ing" for token in tokens]
    (tmp_path / "text.txt").write_text("Playing.\n\nPlay\n")
    documents = encoder.documents(plan_blocks([str(tmp_path / "text.txt")], 100)[0])
    assert documents.ids.tolist() == [5, 6, 7, 5]
    assert documents.bounds == [0, 3, 4]


def test_missing_special_tokens_are_named(tokenizer):
    with pytest.raises(UserError, match=r"no \[SEP\] and no \[MASK\]"):
        Encoder(with_vocabulary(["[CLS]", "x"], tokenizer.sp_model), True)


def with_vocabulary(pieces, sp_model):
    """A tokenizer with these pieces."""
    tokenizer = tokenization.FullTokenizer.__new__(tokenization.FullTokenizer)
    tokenizer.vocab = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer.inv_vocab = {i: piece for piece, i in tokenizer.vocab.items()}
    tokenizer.sp_model = sp_model
    return tokenizer
