"""Windows, tags and spans of texts for a model that tags words."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albert.report.spans import Span, span_scores
from albert.tables.tables import SourceLine
from albert.tasks.entities.annotations import AnnotatedText
from albert.tasks.entities.features import Tagger
from albert.tokenization import FullTokenizer
from albert.tokenizers.wordpiece_text import words_in
from tests.helpers.squad import train_tokenizer

LINE = SourceLine("file", 1)
TAGS = ["O", "B-PER", "I-PER"]


def annotated(text: str, *edges: tuple[int, int]) -> AnnotatedText:
    spans = [Span(start, end, text[start:end], "PER") for start, end in edges]
    return AnnotatedText(LINE, text, words_in(text), spans)


@pytest.fixture(scope="module", params=["spm.model", "vocab.txt", "cased.txt"])
def tokenizer(request, squad_dir, tmp_path_factory) -> FullTokenizer:
    """Returns a tokenizer of each kind, of made-up words; the last one keeps the case."""
    if request.param == "spm.model":
        return FullTokenizer(None, True, str(squad_dir / "spm.model"))
    if request.param == "vocab.txt":
        return FullTokenizer(str(squad_dir / "vocab.txt"), True)
    return of_letters(tmp_path_factory, [chr(code) for code in range(33, 127)])


def of_letters(tmp_path_factory, letters: list[str]) -> FullTokenizer:
    """Returns a tokenizer that keeps the case, and makes each letter a piece."""
    path = tmp_path_factory.mktemp("letters") / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters)]
    path.write_text("\n".join(pieces), encoding="utf-8")
    return FullTokenizer(str(path), False)


def parsed(tagger: Tagger, records: list[bytes]) -> list[dict[str, np.ndarray]]:
    rows = [tf.train.Example.FromString(record).features.feature for record in records]
    return [{name: np.array(row[name].int64_list.value) for name in tagger.spec} for row in rows]


def perfect(tagger: Tagger, texts: list[AnnotatedText]) -> list[dict[str, np.ndarray]]:
    """Returns outputs that predict the true tags."""
    ids = [row["tag_ids"] for row in parsed(tagger, tagger.records(texts))]
    return [{"predictions": np.maximum(n - 1, 0), "probabilities": np.ones(len(n))} for n in ids]


def test_only_first_pieces_have_tags(tokenizer):
    """A window has [CLS], the pieces and [SEP]; of a word, the first piece has the tag."""
    tagger = Tagger(tokenizer, TAGS, 32)
    text = annotated("Anna Bell, of Rome.", (0, 9))
    (row,) = parsed(tagger, tagger.records([text]))
    tokens = tokenizer.encode_with_offsets(text.text)
    used = len(tokens.ids) + 2
    assert row["input_ids"].tolist()[:used] == [tokenizer.cls_id, *tokens.ids, tokenizer.sep_id]
    assert row["input_mask"].tolist() == [1] * used + [0] * (32 - used)
    assert not row["segment_ids"].any()
    tags = np.flatnonzero(row["tag_ids"])
    begun = {text.text[tokens.starts[n - 1] : tokens.ends[n - 1] + 1].strip()[0] for n in tags}
    assert begun == {*"AB,oR."} and len(tags) == 6 < len(tokens.ids)
    assert [TAGS[n - 1] for n in row["tag_ids"][tags]] == ["B-PER", "I-PER", "O", "O", "O", "O"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), length=st.integers(4, 40))
def test_perfect_outputs_give_the_spans_of_texts_of_any_length(tokenizer, data, length):
    """No entity is lost between windows, and each word is tagged in one window."""
    tagger = Tagger(tokenizer, TAGS, length)
    texts = []
    for _ in range(data.draw(st.integers(0, 3))):
        words = data.draw(st.lists(st.sampled_from(["a", "Anna", "km", ",", "U.S."]), max_size=40))
        text = " ".join(words)
        edges = words_in(text)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(edges)), max_size=12)))
        chosen = zip(cuts[::2], cuts[1::2], strict=False)
        spans = ((edges[first][0], edges[last - 1][1]) for first, last in chosen)
        texts.append(annotated(text, *spans))
    rows, outputs = parsed(tagger, tagger.records(texts)), perfect(tagger, texts)
    assert all(row["input_mask"].sum() <= length for row in rows)
    tagged = list(tagger.spans(((text.text, text.words) for text in texts), outputs))
    expected = [[span[:4] for span in text.spans] for text in texts]
    assert [[span[:4] for span in spans] for spans in tagged] == expected
    count = sum(np.count_nonzero(row["tag_ids"]) for row in rows)
    assert count == sum(len(text.words) for text in texts)


# Texts that do not separate words, with entities inside runs of letters.
UNSEPARATED = [
    ("佐藤さんはミナトと青葉銀行を見た。", ["佐藤", "ミナト", "青葉銀行"]),
    ("李小龍在青島大學工作。", ["李小龍", "青島大學"]),
    ("민지는 부산에서 일한다.", ["민지", "부산"]),
    ("มานะไปลำปางเมื่อวาน", ["มานะ", "ลำปาง"]),
    (" Nia  saw naïve\u00a0Ouse\u3000 ", ["Nia", "naïve", "Ouse"]),
]


@pytest.fixture(scope="module", params=["char", "bpe", "vocab.txt"])
def unseparated_tokenizer(request, tmp_path_factory) -> FullTokenizer:
    """Returns a tokenizer; except for "bpe", each of its pieces has one character."""
    text, folder = "\n".join(text for text, _ in UNSEPARATED), tmp_path_factory.mktemp("characters")
    if request.param == "vocab.txt":
        return of_letters(tmp_path_factory, sorted({*text} - {*" \n\u00a0\u3000"}))
    (folder / "texts").write_text(text, encoding="utf-8")
    train_tokenizer(folder / "texts", folder / "own", 120, request.param)
    return FullTokenizer(None, False, str(folder / "own.model"), keep_accents=True)


@pytest.mark.parametrize("length", [5, 64])
def test_tags_of_pieces_or_characters_give_entities_inside_words(unseparated_tokenizer, length):
    texts = []
    for text, entities in UNSEPARATED:
        edges = ((text.index(entity), text.index(entity) + len(entity)) for entity in entities)
        texts.append(annotated(text, *edges))
    truths = [text.spans for text in texts]
    scores = {}
    for units in ("word", "piece", "character"):
        tagger = Tagger(unseparated_tokenizer, TAGS, length, units)
        predicted = list(tagger.spans(((t.text, t.words) for t in texts), perfect(tagger, texts)))
        scores[units] = span_scores(predicted, truths)["f1"]
    pieces = [unseparated_tokenizer.tokenize(text.text) for text in texts]
    has_long = any(len(piece.strip("▁#")) > 1 for text in pieces for piece in text)
    assert scores["character"] == 1 > scores["word"]
    assert scores["piece"] < 1 if has_long else scores["piece"] == 1


def test_words_in_one_piece_have_one_tag(golden_tokenizer):
    """A piece of SentencePiece may contain a number and the sign after it."""
    tagger, text = Tagger(golden_tokenizer, TAGS, 16), "it is 1,200 of 4."
    words, ((_, positions),) = tagger.encode(text, words_in(text))
    assert [text[start:end] for start, end in words] == ["it", "is", "1,200", "of", "4."]
    tags = np.array([0] * positions[2] + [1] + [0] * 15)
    output = {"predictions": tags, "probabilities": np.full(16, 0.5)}
    ((span,),) = tagger.spans([(text, words_in(text))], [output])
    assert span == Span(6, 11, "1,200", "PER", 0.5)


def test_words_without_pieces_and_texts_without_words_have_no_tags(tokenizer):
    tagger = Tagger(tokenizer, TAGS, 16)
    for text in ("", "  \n", "\u200b"):
        words, windows = tagger.encode(text, words_in(text))
        if tokenizer.is_wordpiece or not text.strip():
            assert (words, windows) == ([], [])
    assert tagger.records([annotated("")]) == []
    assert list(tagger.spans([("", [])], [])) == [[]]
