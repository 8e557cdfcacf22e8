"""The settings of the tokenizer, and those of all tasks whose features are made from text."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from albert.core.errors import FlagError
from albert.core.files import file_of_split
from albert.core.processes import default_processes
from albert.settings.fields import (
    DATA,
    FEATURES,
    LONGEST_SEQUENCE,
    MODEL,
    TRAINING,
    Affects,
    Settings,
    parse_lengths,
    setting,
)
from albert.settings.run_settings import AUTO_RECIPE, RECIPES, RunSettings

# The part of own data that is kept for scores.
USUAL_FRACTION = 0.2

AnyTextSettings = TypeVar("AnyTextSettings", bound="TextSettings")
AnyFileSettings = TypeVar("AnyFileSettings", bound="FileSettings")


class NormalizationSettings(Settings, theme=MODEL, affects=Affects.FEATURES):
    """The changes of text before the tokenizer; see `Normalization`."""

    do_lower_case: bool = setting(
        True,
        "Lowercase the text and, for WordPiece, remove accents; true for all published models "
        "except the cased ones. A folder of transformers has its own value.",
        basic=True,
    )
    strip_accents: bool | None = setting(
        None, "Remove accents before WordPiece. Default: the value of --do_lower_case."
    )
    keep_accents: bool = setting(
        False,
        "Keep accents, and other characters that have a Unicode decomposition, before "
        "SentencePiece. The published models need false.",
    )
    tokenize_chinese_chars: bool = setting(
        True, "Make every Chinese character a word before WordPiece."
    )
    tokenizer_rules: str = setting(
        "",
        "Tokens to find in texts as they are, and other rules of a tokenizer of transformers; a "
        "folder of transformers sets them. Default: the rules of Google's code.",
    )

    def given_normalization(self) -> dict[str, Any]:
        """Returns the values that the user set, by name."""
        names = self.given & NormalizationSettings.flags().keys()
        return {name: getattr(self, name) for name in names}


class TokenizerSettings(NormalizationSettings, theme=MODEL, affects=Affects.FEATURES):
    """The tokenizer of a model."""

    spm_model_file: str | None = setting(
        None,
        "SentencePiece model of the pretrained ALBERT. Required unless you pass --vocab_file or "
        "--model.",
        basic=True,
        path=True,
    )
    vocab_file: str | None = setting(
        None,
        "WordPiece vocabulary of the pretrained model; ignored with --spm_model_file. Required "
        "unless you pass --spm_model_file or --model.",
        basic=True,
        path=True,
    )


class TextSettings(TokenizerSettings, RunSettings):
    """The tokenizer, the features and their batches."""

    max_seq_length: int = setting(
        384,
        "Length of a feature, in tokens.",
        FEATURES,
        Affects.FEATURES,
        basic=True,
        lower=1,
        upper=LONGEST_SEQUENCE,
    )
    length_buckets: tuple[int, ...] | None = setting(
        None,
        "Lengths, in tokens, to which batches are padded, such as 128,192,256,384. The last one "
        "must be --max_seq_length. All features of a training step fit in the same bucket, so that "
        "there are few shapes, which are known in advance. This changes which examples share a "
        "batch.",
        TRAINING,
        Affects.WEIGHTS,
        parser=parse_lengths,
    )
    preprocess_workers: int = setting(
        default_processes(),
        "Number of processes that make features; does not affect the features. Default: the number "
        "of cores, or 1 on macOS.",
        FEATURES,
        lower=1,
    )
    recipe: str | None = setting(
        None,
        "Source of the values that you do not pass: the defaults (reference), or the data and the "
        "model (auto). With auto, the run chooses the optimizer, its rate and warm-up, the steps, "
        "batch size, length and checkpoints, and logs why. Default: auto for tables of your own "
        "and for entities, otherwise reference.",
        TRAINING,
        Affects.WEIGHTS,
        basic=True,
        choices=RECIPES,
    )
    from_scratch: bool | None = setting(
        False,
        "Start from random weights on purpose, without a warning about a missing "
        "--init_checkpoint.",
        MODEL,
    )

    def is_auto(self) -> bool:
        """Returns whether the recipe is auto."""
        return self.recipe == AUTO_RECIPE


class DevSplitSettings(Settings, theme=DATA, affects=Affects.WEIGHTS | Affects.SCORES):
    """The part of a training file to score on."""

    dev_fraction: float = setting(
        0.0,
        "Without a development set: the fraction of the different texts (for SQuAD, of the "
        "contexts) in the training file to score on instead of to train on.",
        lower=0.0,
        upper=0.9,
    )
    # Seed of the choice of texts, which a model records.
    dev_seed: int = 12345


class FileSettings(DevSplitSettings, TextSettings):
    """The settings of a task with a training file, and a file or a part of it to score on."""

    train_file: str = ""
    predict_file: str = ""

    def dev_flag(self) -> str:
        """Returns the flag of the file to score on."""
        return "train_file" if self.dev_fraction else "predict_file"

    def is_input(self, path: str) -> bool:
        """Returns whether a path is one input, and not a folder with one for each split."""
        return not os.path.isdir(path)

    def with_data(self: AnyFileSettings, path: str) -> AnyFileSettings:
        train, dev = (path, "") if self.do_train else ("", path)
        if not self.is_input(path):
            train, dev = (file_of_split(path, split) for split in ("train", "dev"))
            if not (train if self.do_train else dev):
                needed = "train" if self.do_train else "dev"
                raise FlagError(f"{path} has no {needed}.csv, {needed}.json or similar file")
        values: dict[str, Any] = {"train_file": train} if self.do_train else {}
        values |= {"predict_file": dev} if dev else {}
        if not ({"predict_file"} & (self.given | values.keys())):
            values["dev_fraction"] = USUAL_FRACTION
        return self._implying(path, **values)
