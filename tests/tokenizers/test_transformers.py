"""Token ids equal those of `transformers`, with which other people's models were trained.

Two differences are theirs, and Google's code is followed: `transformers` lower-cases letter by
letter, without a final sigma, and before SentencePiece it replaces two grave accents or apostrophes
by a quotation mark.
"""

import base64
import functools
import json
import random
import re
import unicodedata

import hypothesis
import pytest
import sentencepiece as spm

from albert.tokenization import FullTokenizer
from albert.tokenizers.text_rules import TextRules
from albert.tokenizers.tokenizer_json import settings_of
from tests.helpers.texts import TEXTS

transformers = pytest.importorskip("transformers")

# First and last letter of 12 scripts.
SCRIPTS = ("Aſ", "Άώ", "Ѐџ", "Աև", "את", "ؠْ", "ँ्", "กฺ", "Ⴀჼ", "가꿿", "ぁヾ", "一倀")
SIGMAS = "Σς"
MARKS = [",", ".", " -", "!", "“", "。", "'", "½", "ﬁ", "\xa0x", "\u200bx"]


@pytest.fixture(scope="module")
def lines():
    """Returns 5,000 lines in 12 scripts, with numbers, punctuation and decomposed letters."""
    rng, lines = random.Random(0), list[str]()
    alphabets = [
        [
            c
            for c in map(chr, range(ord(first), ord(last) + 1))
            if unicodedata.category(c)[0] in "LM"
        ]
        for first, last in SCRIPTS
    ]
    for number in range(5000):
        words = []
        for _ in range(rng.randint(1, 6)):
            alphabet = alphabets[number % 12 if rng.random() < 0.9 else 0]
            # Only some tokenizers treat a single mark as a word.
            letters = [c for c in alphabet if c not in SIGMAS]
            first = rng.choice([c for c in letters if unicodedata.category(c)[0] == "L"])
            word = first + "".join(rng.choices(letters, k=rng.randint(0, 8)))
            other = unicodedata.normalize("NFD", word), str(rng.randint(0, 3000))
            words.append(rng.choice([word] * 8 + [*other, word + rng.choice(MARKS)]))
        lines.append(" ".join(words))
    return lines


@pytest.fixture(scope="module")
def vocabulary(lines, tmp_path_factory):
    """Returns the path of a vocabulary with most characters of the lines, in all of their forms."""
    text = "".join(lines)
    forms = text + "".join(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    letters = sorted({c for c in forms + forms.lower() if not c.isspace()})
    known = [letter for letter in letters if ord(letter) % 17]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known, *(f"##{c}" for c in known)]
    path.write_text("\n".join(pieces), encoding="utf-8")
    return str(path)


OPTIONS = {
    "uncased": {},
    "cased": {"do_lower_case": False},
    "uncased with accents": {"strip_accents": False},
    "cased without accents": {"do_lower_case": False, "strip_accents": True},
    "ideographs in words": {"tokenize_chinese_chars": False},
}


@pytest.fixture(scope="module")
def pairs(vocabulary):
    """Returns our and their tokenizer for each of `OPTIONS`."""
    fast = functools.partial(transformers.BertTokenizerFast, vocabulary)
    return [(FullTokenizer(vocabulary, **one), fast(**one)) for one in OPTIONS.values()]


@hypothesis.given(text=TEXTS.filter(lambda text: not {*SIGMAS} & {*text}))
@hypothesis.settings(suppress_health_check=list(hypothesis.HealthCheck))
def test_wordpiece_gives_the_ids_of_transformers_for_any_text(pairs, text):
    # They are special tokens, or removed, in `transformers` only.
    hypothesis.assume("[" not in text)
    hypothesis.assume(all(unicodedata.category(c) not in ("Cn", "Co", "Cs") for c in text))
    for ours, fast in pairs:
        assert ours.encode([text]) == [fast(text, add_special_tokens=False)["input_ids"]]


@pytest.fixture(scope="module")
def model(lines, tmp_path_factory):
    """Returns the path of a SentencePiece model of the lines, in all of their forms."""
    prefix = str(tmp_path_factory.mktemp("model") / "spm")
    options = {"vocab_size": 3000, "model_type": "unigram", "minloglevel": 2, "pad_id": 0}
    options |= {"unk_id": 1, "bos_id": -1, "eos_id": -1, "character_coverage": 0.98}
    options |= {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "user_defined_symbols": ["(", "-"]}
    sentences = iter([*lines[:1500], *map(str.lower, lines[:1500])])
    spm.SentencePieceTrainer.train(sentence_iterator=sentences, model_prefix=prefix, **options)
    return f"{prefix}.model"


ALBERT_OPTIONS = {
    "uncased": {},
    "cased": {"do_lower_case": False},
    "uncased with accents": {"keep_accents": True},
    "cased with accents": {"do_lower_case": False, "keep_accents": True},
}


@pytest.mark.parametrize("options", ALBERT_OPTIONS.values(), ids=ALBERT_OPTIONS)
def test_sentencepiece_gives_the_ids_of_transformers(lines, model, options):
    ours = FullTokenizer(None, spm_model_file=model, **options)
    theirs = transformers.AlbertTokenizer(model, **options)
    assert ours.encode(lines) == theirs(lines, add_special_tokens=False)["input_ids"]


def test_two_grave_accents_or_apostrophes_are_a_quotation_mark_in_folders(model):
    """Google's code keeps them. No token begins or ends between the two characters."""
    ours = FullTokenizer(None, spm_model_file=model, tokenizer_rules=TextRules([]).recorded())
    theirs = transformers.AlbertTokenizer(model)
    texts = ["A ``quoted'' word isn't ''' odd,``", "``", "''it's''", "Élan ``é''\u0301 ½''"]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert ours.encode(texts) == expected
    assert ours.encode(map(ours.normalize, texts), normalized=True) == expected
    for text, ids in zip(texts, expected, strict=True):
        tokens = ours.encode_with_offsets(text)
        assert tokens.ids.tolist() == ids
        marks = {match.start() for match in re.finditer("``|''", text)}
        assert marks and not marks & {*tokens.ends} and not marks & {*(tokens.starts - 1)}
        assert tokens.ends[-1] == len(text) - 1
    kept = FullTokenizer(None, spm_model_file=model)
    assert kept.encode([texts[0]]) != expected[:1]


def template(*parts: tuple[str, int]) -> list[dict]:
    return [
        {"Sequence" if len(name) == 1 else "SpecialToken": {"id": name, "type_id": kind}}
        for name, kind in parts
    ]


SINGLE = (("[CLS]", 0), ("A", 0), ("[SEP]", 0))
TEMPLATE = {"type": "TemplateProcessing", "single": template(*SINGLE), "special_tokens": {}}
TEMPLATE["pair"] = template(*SINGLE, ("B", 1), ("[SEP]", 1))


@pytest.mark.parametrize("options", ALBERT_OPTIONS.values(), ids=ALBERT_OPTIONS)
def test_a_tokenizer_json_gives_the_ids_of_its_model(lines, model, options, tmp_path):
    """The file has the form that `AlbertTokenizerFast` of `transformers` 4.57 saves."""
    from transformers.utils.sentencepiece_model_pb2_new import ModelProto

    ours = FullTokenizer(None, spm_model_file=model, **options)
    sp, size = ours.sp_model, ours.size
    kinds = [(sp.is_control(i), i, sp.id_to_piece(i)) for i in range(size)]
    proto = ModelProto.FromString(sp.serialized_model_proto())
    steps = ["NFKD", "StripAccents"] * (not options.get("keep_accents"))
    steps += ["Lowercase"] * options.get("do_lower_case", True)
    precompiled = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    normalizers = [{"type": step} for step in steps]
    normalizers.append({"type": "Precompiled", "precompiled_charsmap": precompiled})
    added = [(i, control) for control, i, piece in kinds if control or piece in ("(", "-")]
    tokenizer = {
        "added_tokens": [{"id": number, "special": special} for number, special in added],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "post_processor": TEMPLATE,
        "model": {
            "type": "Unigram",
            "unk_id": sp.unk_id(),
            "vocab": [[piece, sp.get_score(i)] for _, i, piece in kinds],
        },
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    normalization = settings_of(tokenizer, str(path))
    expected = {"do_lower_case": True, "keep_accents": False, "quotes": False, **options}
    assert normalization == expected
    again = FullTokenizer.of({"spm_model_file": str(path)}, normalization)
    assert again.encode(lines) == ours.encode(lines)
    assert again.encode(["a (b)-c [CLS]"]) == ours.encode(["a (b)-c [CLS]"])
