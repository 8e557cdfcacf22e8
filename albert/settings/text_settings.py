"""The settings that tasks have in common whose features are made of text."""

from __future__ import annotations

import os

from albert.settings.fields import (
    FEATURES,
    LONGEST_SEQUENCE,
    MODEL,
    TRAINING,
    Affects,
    parse_lengths,
    setting,
)
from albert.settings.run_settings import RunSettings


class TextSettings(RunSettings):
    """How text becomes features, and batches are made of them."""

    spm_model_file: str | None = setting(
        None,
        "SentencePiece model of the pretrained ALBERT. Required: it or --vocab_file.",
        MODEL,
        Affects.FEATURES,
        basic=True,
        path=True,
    )
    vocab_file: str | None = setting(
        None,
        "WordPiece vocabulary of the pretrained model; does not count with --spm_model_file, "
        "and is required without it.",
        MODEL,
        Affects.FEATURES,
        basic=True,
        path=True,
    )
    do_lower_case: bool = setting(
        True,
        "Lower-case the text, and take its accents away; true for all published models but "
        "those called cased.",
        MODEL,
        Affects.FEATURES,
        basic=True,
    )
    max_seq_length: int = setting(
        384,
        "Tokens of a feature.",
        FEATURES,
        Affects.FEATURES,
        basic=True,
        lower=1,
        upper=LONGEST_SEQUENCE,
    )
    length_buckets: tuple[int, ...] | None = setting(
        None,
        "Lengths that batches are cut to, such as 128,192,256,384, the last of them "
        "--max_seq_length. A training step is of features that fit into the same one: few "
        "shapes, each known beforehand. Other examples meet in a batch than without.",
        TRAINING,
        Affects.WEIGHTS,
        parser=parse_lengths,
    )
    preprocess_workers: int = setting(
        len(os.sched_getaffinity(0)),
        "Processes that make features; the files are the same for any number. Default: the cores.",
        FEATURES,
        lower=1,
    )
    from_scratch: bool | None = setting(
        False,
        "Start from random weights on purpose: no warning that --init_checkpoint is not given.",
        MODEL,
    )
