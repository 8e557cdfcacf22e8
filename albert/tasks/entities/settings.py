"""The settings of named entities."""

from __future__ import annotations

from albert.settings.fields import DATA, FEATURES, Affects, Settings, redefined, setting
from albert.settings.run_settings import REFERENCE, KeptCheckpoints
from albert.settings.text_settings import FileSettings, TextSettings
from albert.tables.bad_rows import ERROR, ON_BAD_ROW
from albert.tables.kinds import standoff_files

# What has a tag.
AUTO, WORD, PIECE, CHARACTER = ENTITY_UNITS = ("auto", "word", "piece", "character")
# What the offsets of spans count.
CHARACTERS, INCLUSIVE = "characters", "inclusive"
OFFSETS: tuple[str, ...] = (CHARACTERS, "utf16", "bytes", "lines", INCLUSIVE)


def _file(what: str, affects: Affects) -> str:
    text = f"{what}, in columns as in CoNLL, as JSON with spans, or of an annotation tool."
    return setting("", text, DATA, affects, basic=True, path=True)


class FormatSettings(Settings, theme=FEATURES, affects=Affects.FEATURES):
    """How to read a file of annotated texts."""

    offsets: str = setting(
        CHARACTERS,
        "What the offsets of spans count: characters (code points), units of UTF-16, bytes of "
        "UTF-8; lines: characters, but the two at the end of a line (CRLF) as one; or inclusive: "
        "characters, and the end of a span is that of its last character.",
        choices=OFFSETS,
    )
    token_column: int | None = setting(
        None,
        "The column with the tokens, from 1. Default: the first one, or the second one if the "
        "first one counts the tokens.",
        lower=1,
    )
    tag_column: int | None = setting(
        None,
        "The column with the tags, from 1. Default: the last one, or the one before it in the "
        "format of GermEval 2014.",
        lower=1,
    )


class EntitiesSettings(FormatSettings, KeptCheckpoints, FileSettings):
    r"""Trains a model to find named entities in texts, scores it, and finds those of other texts.

      albert entities texts.jsonl --model=bert_base_cased --do_lower_case=false
      albert entities --train_file=train.conll --predict_file=dev.conll --output_dir=out \
        --model=bert_base_cased --do_lower_case=false

    The first command scores on a fifth of the texts.
    Run the same command again to resume a run that was stopped. A finished run ends at once.
    """

    head = "token classification"
    feature_files = {"cached_dir": ""}
    num_train_epochs: float = redefined(TextSettings, "num_train_epochs", 3.0)
    save_checkpoints_steps: int = redefined(TextSettings, "save_checkpoints_steps", 500)
    max_seq_length: int = redefined(TextSettings, "max_seq_length", 128, lower=4)
    train_file: str = _file("Training set", Affects.WEIGHTS)
    predict_file: str = _file("Development set", Affects.SCORES)
    test_file: str = _file("Texts to find entities in, labeled or not", Affects.NOTHING)
    do_train: bool = setting(True, "Train on --train_file.", DATA, basic=True)
    do_eval: bool = setting(True, "Score every checkpoint on --predict_file.", DATA, basic=True)
    do_predict: bool = setting(True, "Find the entities in --test_file.", DATA, basic=True)
    on_bad_row: str = setting(
        ERROR,
        "What to do with texts that cannot be used: error ends the run; skip skips them.",
        affects=Affects.FEATURES,
        theme=DATA,
        choices=ON_BAD_ROW,
    )
    entity_units: str = setting(
        AUTO,
        "What has a tag: each word; or, for languages that do not separate words, each piece of "
        "the tokenizer, or each character, which becomes a separate word. If more than 5% of the "
        "entities in --train_file begin or end inside a word, auto decides for pieces, or for "
        "characters if as many begin or end inside a piece. Scores and later uses of the model do "
        "the same.",
        FEATURES,
        Affects.FEATURES,
        choices=ENTITY_UNITS,
    )
    cached_dir: str | None = setting(
        None,
        "Folder for the feature files. They are reused if they were made from the same input, "
        "otherwise written. Default: --output_dir.",
        FEATURES,
        path=True,
    )

    def is_input(self, path: str) -> bool:
        return bool(standoff_files(path)) or super().is_input(path)

    def is_auto(self) -> bool:
        return self.recipe != REFERENCE
