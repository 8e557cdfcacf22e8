"""Folders with tokenizers that the library `tokenizers` has trained with random settings.

The ids equal those of `AutoTokenizer`, or the folder is refused.
"""

import json
import random

import pytest

from albert.checkpoints.folder_tokenizer import tokenizer_settings
from albert.checkpoints.model_folder import pretrained_files
from albert.core.errors import UserError
from albert.records.sequences import sequences_of
from albert.tokenization import FullTokenizer
from tests.helpers.fixtures import SIZES

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LINES = [
    "The river is deep, and an old bridge (1859) crosses it.",
    "Élan naïve Straße ΣΟΦΟΣ; co-op's e-mail: foo_bar@x.org!",
    "中文 text と日本語, टावर 100%",
]
ODD = [*SPECIAL, "[E1]", "[e1]", "<b>", "İI", "e\u0301", "\uf0b7", "\u200b", "\u2028", "\x1c", "\t"]
ODD += ["  ", "x" * 101, "中", "ΟΣ", "…", "\ufffd", "newword", "New"]


def make(folder, rng: random.Random):
    """Writes a folder; each part is BERT's in two of three folders, and sometimes another."""
    usual = rng.random() < 0.6

    def choose(ours, *others):
        return ours if usual or rng.random() < 0.7 else rng.choice(others)

    norm, pre = tokenizers.normalizers, tokenizers.pre_tokenizers
    flags = {name: rng.random() < 0.7 for name in ("handle_chinese_chars", "lowercase")}
    bert = norm.BertNormalizer(
        clean_text=rng.random() < 0.9, strip_accents=rng.choice([None, True, False]), **flags
    )
    normalizer = choose(
        bert, None, norm.Lowercase(), norm.Sequence([norm.NFD(), norm.StripAccents()]), norm.NFKC()
    )
    normalizer = norm.Sequence([normalizer]) if normalizer and rng.random() < 0.1 else normalizer
    split = choose(
        pre.BertPreTokenizer(),
        pre.Whitespace(),
        pre.WhitespaceSplit(),
        pre.Sequence([pre.BertPreTokenizer(), pre.Digits(individual_digits=True)]),
    )
    prefix, longest = choose("##", "@@", ""), rng.choice([100, 100, 7])
    model = tokenizers.models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=longest)
    tokenizer = tokenizers.Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = split
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=rng.randint(90, 200),
        special_tokens=SPECIAL,
        continuing_subword_prefix=prefix,
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    # Training loses it.
    content = json.loads(tokenizer.to_str())
    content["model"]["max_input_chars_per_word"] = longest
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
    single = choose("[CLS] $A [SEP]", "[CLS] $A", "$A [SEP]", "$A")
    pair = choose("[CLS] $A [SEP] $B:1 [SEP]:1", "[CLS] $A [SEP] $B [SEP]", "$A $B")
    tokens = [(token, SPECIAL.index(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=tokens
    )
    tokenizer.add_tokens(
        [added(rng, one) for one in ("[E1]", "<b>", "New", "İI") if rng.random() < 0.5]
    )
    if not usual and rng.random() < 0.2:
        tokenizer.enable_truncation(20, direction=rng.choice(["left", "right"]))
    kinds = [transformers.PreTrainedTokenizerFast]
    # It reads the settings of the normalizer.
    kinds += [transformers.BertTokenizerFast] * (normalizer is not None)
    options = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL}
    if rng.random() < 0.3:
        options["do_lower_case"] = rng.random() < 0.5
    if rng.random() < 0.1:
        options["truncation_side"] = "left"
    form = rng.choice(["class", "class", "json", "slow"])
    if form == "class":
        theirs = rng.choice(kinds)(tokenizer_object=tokenizer, **options)
        theirs.save_pretrained(folder)
    elif form == "json":
        tokenizer.save(str(folder / "tokenizer.json"))
    else:
        ids = tokenizer.get_vocab(with_added_tokens=False)
        (folder / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.get)), encoding="utf-8")
        theirs = transformers.BertTokenizer(str(folder / "vocab.txt"), **options)
        theirs.add_tokens([transformers.AddedToken("[E1]", lstrip=True), "New"])
        theirs.save_pretrained(folder)
    size = tokenizer.get_vocab_size() + 8
    config = {"model_type": "bert", "vocab_size": size, **SIZES}
    (folder / "config.json").write_text(json.dumps(config))


def added(rng: random.Random, content: str):
    flags = {name: rng.random() < 0.3 for name in ("lstrip", "rstrip", "single_word")}
    return tokenizers.AddedToken(content, normalized=rng.random() < 0.5, **flags)


def texts_of(rng: random.Random) -> list[str]:
    words = [word for line in LINES for word in line.split()] + ODD
    texts = [[rng.choice(words) + rng.choice(["", " "]) for _ in range(9)] for _ in range(30)]
    return [*map("".join, texts), "", "[SEP]"]


def compare(folder, seed: int) -> str:
    """Returns the reason of a refusal; "" if the ids equal those of `transformers`."""
    rng = random.Random(seed)
    make(folder, rng)
    texts, others = texts_of(rng), texts_of(rng)
    files = pretrained_files(str(folder))
    try:
        ours = FullTokenizer.of(files, tokenizer_settings(str(folder)))
    except UserError as e:
        return str(e)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for pair, longest in [((texts,), 30), ((texts, others), 500)]:
        found = theirs(*pair, truncation=True, max_length=longest)
        expected = found["input_ids"], found["token_type_ids"]
        actual = sequences_of(list(zip(*pair, strict=True)), ours, longest)
        for *text, sequence, ids, kinds in zip(*pair, actual, *expected, strict=True):
            # A second text without tokens counts as none.
            if len(pair) == 1 or ours.encode(text[1:]) != [[]]:
                assert (sequence.ids, sequence.first) == (ids, kinds.count(0)), (seed, text)
    return ""


def test_ids_equal_those_of_transformers_or_the_folder_is_refused(tmp_path):
    refused = list[bool]()
    for seed in range(30):
        folder = tmp_path / str(seed)
        folder.mkdir()
        refused.append(bool(compare(folder, seed)))
    # Otherwise it would test too little of one of the two.
    assert 5 < sum(refused) < 25
