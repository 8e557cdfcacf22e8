"""convert_examples_to_features(): golden figures, and answers that Google's BERT treats apart."""

import itertools
import tracemalloc

import pytest

from albert import tokenization
from albert.core.errors import UserError
from albert.squad_utils import SquadExample
from albert.tasks.squad.features import WindowMaker
from tests.helpers.golden import GOLDEN, assert_squad_features, convert
from tests.helpers.squad import train_tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Returns a tokenizer that knows the letters q, x and z, and makes each one a piece."""
    folder = tmp_path_factory.mktemp("letters")
    (folder / "text").write_text("q x z\n" * 50, encoding="utf-8")
    train_tokenizer(folder / "text", folder / "tiny", 20, "char")
    return tokenization.FullTokenizer(None, True, str(folder / "tiny.model"))


def positions(feature):
    return feature.start_position, feature.end_position, feature.is_impossible


SHORT = (160, 48, 24)
# Google's BERT does not find the answer in them, because of a no-break or a thin space.
NOT_FOUND = {
    f"sample-20260-train-{number}"
    for number in ("1-0-2", "4-0-2", "5-0-1", "5-2-2", "9-0-3", "10-0-1", "13-1-2", "15-1-0")
}


@pytest.mark.parametrize(
    ("data", "name", "options"),
    [
        ("train-v1.1", "features-train-v1.1", {}),
        ("train-v1.1", "features-train-v1.1-seq160", {"lengths": SHORT}),
        ("train-v2.0", "features-train-v2.0-seq128", {"lengths": (128, 48, 24)}),
        ("dev-v1.1", "features-dev-v1.1", {"inexact": 24}),
        ("dev-v1.1", "features-dev-v1.1-seq160", {"lengths": SHORT, "inexact": 32}),
        ("dev-v2.0", "features-dev-v2.0", {}),
        ("train-v1.1", "features-bert-train-v1.1", {"left_out": NOT_FOUND}),
        ("dev-v1.1", "features-bert-dev-v1.1", {}),
        ("dev-v1.1", "features-bert-dev-v1.1-seq160", {"lengths": SHORT}),
    ],
)
def test_features_equal_the_references(data, name, options):
    assert_squad_features(GOLDEN, data, name, **options)


@pytest.mark.parametrize(("room", "stride"), [(0, 5), (-2, 5), (5, 0), (5, -1)])
def test_lengths_that_leave_no_room_are_an_error(tiny, room, stride):
    """Otherwise they would make an infinite number of windows."""
    with pytest.raises(UserError, match=f"windows of {room} tokens every {stride} tokens"):
        convert([SquadExample("x", "", "q x z " * 3)], tiny, (room + 3, stride, 1), False)


class TestConvert:
    def test_upper_case_is_kept_on_request(self, golden_tokenizer):
        example, lengths = SquadExample("x", "The", "The"), (16, 4, 8)
        (lowered,) = convert([example], golden_tokenizer, lengths, False)
        (kept,) = convert([example], golden_tokenizer, lengths, False, lower=False)
        assert lowered.tokens == ["[CLS]", "▁the", "[SEP]", "▁the", "[SEP]"]
        assert kept.tokens == ["[CLS]", *("▁", "<unk>", "h", "e", "[SEP]") * 2]

    def test_nothing_may_be_found(self, tiny):
        """In prediction, the question may be empty."""
        example = SquadExample("x", "q", "q x z", "", -1, is_impossible=True)
        (feature,) = convert([example], tiny, (32, 8, 8), True)
        assert positions(feature) == (0, 0, True)
        texts = [("q", "q"), ("q", " "), ("q", "x"), (" ", "q")]
        examples = [SquadExample(str(n), *pair) for n, pair in enumerate(texts)]
        features = convert(examples, tiny, (16, 4, 8), False)
        ids = [(f.unique_id - 1000000000, f.example_index) for f in features]
        assert ids == [(0, 0), (1, 2), (2, 3)]
        assert features[2].tokens == ["[CLS]", "[SEP]", "▁", "q", "[SEP]"]


class TestAnswersOfWordPiece:
    """As in Google's BERT: an answer whose tokens do not match the paragraph's gets whole words."""

    @pytest.fixture
    def tokenizer(self, write):
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##want", "##ed", "##un", "x", "##x"]
        return tokenization.FullTokenizer(write("\n".join([*pieces, "cafe", *"()-,."])))

    @pytest.mark.parametrize("text", ["x (unwanted), x", "unedx unedun", "unedunwantedx.un"])
    def test_exact_answers_are_the_tokens_that_overlap(self, tokenizer, text):
        maker, widened = (WindowMaker(tokenizer, 32, 8, 8, exact) for exact in (True, False))
        wider = 0
        for first, end in itertools.combinations(range(len(text) + 1), 2):
            if not text[first].isspace() and not text[end - 1].isspace():
                example = SquadExample("q", "x", text, text[first:end], first)
                (window,), (google,) = (list(m.windows([example])) for m in (maker, widened))
                tokens = zip(window.paragraph.starts, window.paragraph.ends, strict=True)
                expected = [n for n, (a, b) in enumerate(tokens) if a < end and b >= first]
                assert window.answer == (expected[0], expected[-1])
                wider += google.answer != window.answer
        assert wider > 3

    @pytest.mark.parametrize(
        ("text", "answer", "expected"),
        [
            ("x (unwanted), x", "unwanted", "un ##want ##ed"),
            ("x (unwanted), x", "(unwanted)", "( un ##want ##ed )"),
            ("x (unwanted), x", "Un", "un"),
            # "want" is a piece only inside words, and "unwan" is none.
            ("x (unwanted), x", "want", "( un ##want ##ed ) ,"),
            ("x (unwanted), x", "unwan", "( un ##want ##ed ) ,"),
            ("unwanted un.", "ed un", "un ##want ##ed un ."),
            ("x\u00a0unwanted\u202fx", "anted", "x un ##want ##ed"),
            ("x (Cafe\u0301) x", "Cafe", "cafe"),
            ("x caf\u00e9. x", "cafe", "cafe"),
            # Google takes the first of two in a word; the offsets are exact.
            ("un x-x un", "x un", "x un"),
        ],
    )
    def test_positions_are_as_by_hand(self, tokenizer, text, answer, expected):
        first = text.lower().replace("\u00e9", "e").index(answer.lower())
        example = SquadExample("q", "x", text, answer, first)
        (feature,) = convert([example], tokenizer, (32, 8, 8), True)
        start, end, impossible = positions(feature)
        assert not impossible
        assert " ".join(feature.tokens[start : end + 1]) == expected


def test_a_paragraph_of_150000_characters_needs_little_memory(golden_tokenizer):
    """A table of characters by characters would need 90 GB."""
    paragraph = GOLDEN.articles("train-v1.1")[0]["paragraphs"][0]["context"]
    text = (paragraph * (150_000 // len(paragraph) + 1))[:150_000]
    example = SquadExample("q", "what?", text, text[140_000:140_020], 140_000)
    tracemalloc.start()
    assert len(convert([example], golden_tokenizer, (384, 128, 64), True)) > 100
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 500e6
