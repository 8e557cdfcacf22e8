"""Scores of answers in other languages, by functions written here from the official rules."""

import collections
import random
import string
import unicodedata

import pytest

from albert.core.errors import FlagError
from albert.tasks.squad.languages import scorer_of

ANSWERS = {
    "ar": ["القاهرة في مصر", "كتاب السلام والحرب", "١٩٨٤م", "بال"],
    "de": ["der große Fluß", "die „Alte“ Brücke", "eine Einheit des Heeres", "98 m"],
    "en": ["the river a an Theatre", "U.S. $1,000.50", "An end—of it", "état"],
    "es": ["el río ¿cuál?", "unas Casas de la ciudad", "Los Ángeles", "1.859"],
    "hi": ["दिल्ली।", "वह पुल", "२० मीटर", "the Yamuna"],
    "ko": ["《서울》의 다리", "‘한강’ (漢江)", "1859년 5월", "세종 대왕"],
    "vi": ["của Sông Hồng", "những chiếc cầu là cái", "Hà Nội", "98 mét"],
    "zh": ["长江大桥，1859年", "北京《人民日报》 the News", "a 龥龦 b", "三、四"],
}
NOISE = [" ", "a", "the ", "der ", "ال", "。", "，", "、", "-", "’", "'", "(", "»", "·", "\u3000"]
NOISE += ["Ā", "中", "ß", "《", "$", "_", "〈", "\u00a0", "？"]
ARTICLES = {
    "de": "ein eine einen einem eines einer der die das den dem des",
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
}


def without_words(text: str, words: str) -> str:
    """Replaces whole words with blanks; letters, digits and _ are parts of words."""
    parts, word = [], ""
    for c in text + "\0":
        if c.isalnum() or c == "_":
            word += c
        else:
            parts += [" " if word in words.split() else word, c]
            word = ""
    return "".join(parts)[:-1]


def of_mlqa(text: str, language: str) -> list[str]:
    kept = ""
    for c in text.lower():
        if c not in string.punctuation and unicodedata.category(c)[0] != "P":
            kept += c
    kept = kept.replace("ال", " ") if language == "ar" else kept
    kept = without_words(kept, ARTICLES.get(language, ""))
    if language == "zh":
        kept = "".join(f" {c} " if 0x4E00 <= ord(c) <= 0x9FA5 else c for c in kept)
    return kept.split()


def of_korquad(text: str, language: str | None) -> list[str]:
    for c in "'\"《》<>〈〉()‘’":
        text = text.replace(c, " ")
    return "".join(c for c in text.lower() if c not in string.punctuation).split()


def of_drcd(text: str, language: str) -> list[str]:
    removed = string.punctuation + "《》？，。、；："
    return without_words("".join(c for c in text.lower() if c not in removed), "a an the").split()


def f1_of(predicted: list[str], true: list[str]) -> float:
    hits, rest = 0, list(true)
    for unit in predicted:
        if unit in rest:
            rest.remove(unit)
            hits += 1
    return 2 * hits / (len(predicted) + len(true)) if hits else 0.0


CASES = [("mlqa", language, of_mlqa, list) for language in ANSWERS if language != "ko"]
CASES += [("character", language, of_korquad, "".join) for language in (None, "ko")]
CASES += [("character", "zh", of_drcd, " ".join)]


@pytest.mark.parametrize(("metric", "language", "words", "units"), CASES)
def test_300_perturbed_answers_have_the_scores_of_the_official_rules(
    metric, language, words, units
):
    rng, outcomes = random.Random(f"{metric} {language}"), collections.Counter()
    scorer = scorer_of(metric, language)()
    for number in range(300):
        truths = rng.sample(ANSWERS[language or "ko"], 2)
        answer = [*rng.choice(truths)]
        for _ in range(rng.randrange(4)):
            position = rng.randrange(len(answer) + 1)
            answer[position : position + rng.randrange(2)] = rng.choice(NOISE)
        answer = "".join(answer)
        question = {"id": str(number), "answers": [{"text": text} for text in truths]}
        scorer.update(question, answer)
        own = words(answer, language)
        true = [words(text, language) for text in truths]
        exact, f1 = scorer.exact[-1], scorer.f1[-1]
        assert exact == (own in true)
        expected = max(f1_of([*units(own)], [*units(one)]) for one in true)
        assert f1 == pytest.approx(expected), (answer, truths)
        outcomes[exact, 0 < f1 < 1] += 1
    assert min(outcomes[True, False], outcomes[False, True]) > 20


def test_a_language_without_rules_is_an_error():
    for metric, language in (("mlqa", None), ("mlqa", "ko"), ("character", "de")):
        with pytest.raises(
            FlagError, match=f"--metric={metric} needs --language, one of .* zh; not"
        ):
            scorer_of(metric, language)
    with pytest.raises(FlagError, match="--language is for --metric=character and mlqa; remove it"):
        scorer_of("squad", "en")
