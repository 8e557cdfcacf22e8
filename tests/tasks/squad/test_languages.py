"""Scores of answers in other languages, worked out by hand from the official rules."""

import pytest

from albert.core.errors import FlagError
from albert.tasks.squad.languages import scorer_of

TWO_THIRDS = pytest.approx(2 / 3)
# An answer, the true one, their exact match and F1; by language.
MLQA = {
    # The article is removed in the middle of words, too.
    "ar": [("القاهرة، في مصر.", "قاهرة في مصر", 1, 1), ("بال", "ب", 1, 1), ("الكتاب", "باب", 0, 0)],
    "de": [
        ("ein eine einen einem eines einer der die das den dem des Fluß", "fluß", 1, 1),
        *(("„Alte“ Einheit", "alte Einheit!", 1, 1), ("Stein", "st", 0, 0)),
        ("der Fluß", "große Fluß", 0, TWO_THIRDS),
    ],
    "en": [("the river a an Theatre", "river theatre", 1, 1), ("An end—of it", "endof it", 1, 1)],
    "es": [("un una unos unas el la los las ¿río?", "Río", 1, 1), ("Casa", "casa.", 1, 1)],
    "hi": [("दिल्ली।", "दिल्ली", 1, 1), ("the Yamuna", "Yamuna", 0, TWO_THIRDS)],
    "vi": [("những chiếc cầu của là cái", "Cầu", 1, 1), ("Hà Nội", "hà nội.", 1, 1)],
    # Each Chinese character is a word, up to the last one of the rules.
    "zh": [
        *(("长江大桥，1859年", "长江大桥 1859年", 1, 1), ("长江", "长江大桥", 0, TWO_THIRDS)),
        *(("龥", "龥b", 0, TWO_THIRDS), ("龦b", "龦 b", 0, 0), ("the A", "A", 0, TWO_THIRDS)),
    ],
}
# Quotation marks become blanks, which F1 does not count.
KORQUAD = [
    *(("《서울》의 다리", "서울 의 다리", 1, 1), ("‘한강’ (漢江)", "한강 漢江", 1, 1)),
    *(("서울의", "서울 의", 0, 1), ("$1,000 A", "1000 a", 1, 1), ("서울。", "서울", 0, 0.8)),
]
# Blanks count, and articles of English and some punctuation are removed.
DRCD = [
    *(("《人民日報》 the News，", "人民日報 news", 1, 1), ("三 四", "三四", 0, 0.8)),
    *(("三；四。", "三四", 1, 1), ("「三」", "三", 0, 0.5)),
]
CASES = [("mlqa", language, *case) for language, cases in MLQA.items() for case in cases]
CASES += [("character", language, *case) for language in (None, "ko") for case in KORQUAD]
CASES += [("character", "zh", *case) for case in DRCD]


@pytest.mark.parametrize(("metric", "language", "answer", "truth", "exact", "f1"), CASES)
def test_answers_have_the_scores_of_the_official_rules(metric, language, answer, truth, exact, f1):
    scorer = scorer_of(metric, language)()
    scorer.update({"id": "1", "answers": [{"text": "other"}, {"text": truth}]}, answer)
    (scored,) = scorer.answers
    assert (scored.exact, scored.f1) == (exact, f1)


def test_a_language_without_rules_is_an_error():
    for metric, language in (("mlqa", None), ("mlqa", "ko"), ("character", "de")):
        with pytest.raises(FlagError, match=f"--metric={metric} needs --language, one of .* zh;"):
            scorer_of(metric, language)
    with pytest.raises(FlagError, match="--language is for --metric=character and mlqa; remove it"):
        scorer_of("squad", "en")
