"""The settings of pretraining."""

from __future__ import annotations

from albert.settings.fields import (
    ANSWERS,
    DATA,
    FEATURES,
    LARGEST_BATCH,
    LONGEST_SEQUENCE,
    MODEL,
    TRAINING,
    Affects,
    redefined,
    setting,
)
from albert.settings.run_settings import KeptCheckpoints, RunSettings
from albert.settings.text_settings import TextSettings

_NEEDED = "Needed only with --masked_lm_budget."


class PretrainingSettings(KeptCheckpoints, RunSettings, theme=TRAINING):
    r"""Pretrains ALBERT on records of masked sentence pairs, and scores the checkpoints.

      albert pretrain --albert_config_file=configs/albert_base_v2.json \
        --input_file='pretrain.tfrecord-*' --eval_file=dev.tfrecord --do_train --do_eval \
        --train_batch_size=64 --train_steps=100000 --num_warmup_steps=3000 --output_dir=out

    Run the same command again to resume a run that was stopped. A finished run ends at once.
    To fine-tune the result, pass `model.ckpt-best` as --init_checkpoint.
    """

    train_batch_size: int = redefined(RunSettings, "train_batch_size", 4096)
    # It affects scores because --max_eval_steps counts batches.
    predict_batch_size: int = redefined(
        RunSettings, "predict_batch_size", 64, affects=Affects.SCORES, aliases=("eval_batch_size",)
    )
    learning_rate: float = redefined(RunSettings, "learning_rate", 0.00176)
    train_steps: int = redefined(RunSettings, "train_steps", 125000, aliases=("num_train_steps",))
    optimizer: str = redefined(RunSettings, "optimizer", "lamb")
    # It also determines the masks of the development set.
    seed: int = redefined(RunSettings, "seed", 12345, affects=Affects.WEIGHTS | Affects.SCORES)
    input_file: str = setting(
        "",
        "Record files to train on, from `albert pretraining-data`: names or globs, separated by "
        "commas. Required for training.",
        DATA,
        Affects.WEIGHTS,
        basic=True,
        path=True,
    )
    eval_file: str = setting(
        "",
        "Record files to score on: names or globs, separated by commas. Default: --input_file.",
        DATA,
        Affects.SCORES,
        basic=True,
        path=True,
    )
    do_train: bool = setting(True, "Train on --input_file.", DATA, basic=True)
    do_eval: bool = setting(False, "Score every checkpoint on --eval_file.", DATA, basic=True)
    global_batch_size: int = setting(
        0,
        "Examples, or rows with --pack_sequences, in a step of all workers. Sets "
        "--gradient_accumulation_steps for the number of workers, which then does not divide the "
        "numbers of steps. 0 to compute it from the other flags.",
        affects=Affects.WEIGHTS,
        basic=True,
        lower=0,
        upper=LARGEST_BATCH,
    )
    max_seq_length: int = setting(
        512,
        "Length of a sequence, in tokens, as in the records.",
        FEATURES,
        Affects.FEATURES,
        basic=True,
        lower=5,
        upper=LONGEST_SEQUENCE,
    )
    max_predictions_per_seq: int = setting(
        20,
        "Greatest number of masked tokens in a sequence, as in the records. If these were made "
        "with --do_permutation, twice the value given to `albert pretraining-data`.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
        upper=LONGEST_SEQUENCE,
    )
    num_warmup_steps: int = setting(
        3125,
        "Number of warm-up steps, in which the learning rate rises.",
        affects=Affects.WEIGHTS,
        basic=True,
        lower=0,
    )
    start_warmup_step: int = setting(
        0,
        "Step at which the warm-up begins; the learning rate is 0 before.",
        affects=Affects.WEIGHTS,
        lower=0,
    )
    poly_power: float = setting(
        1.0,
        "Exponent of the decay of --lr_schedule=linear; 1 for a straight line.",
        affects=Affects.WEIGHTS,
        lower=0.0,
    )
    init_from_group0: bool = setting(
        False,
        "Initialize all groups of layers from the first group of --init_checkpoint.",
        MODEL,
        Affects.WEIGHTS,
    )
    masked_lm_budget: float = setting(
        0.0,
        "Draw new masks in every epoch of the training instead of reading them from the records. "
        "The value is the number of masked tokens for each unmasked token. Needs records made with "
        "--masked_lm_prob=0, and --spm_model_file or --vocab_file.",
        FEATURES,
        Affects.FEATURES,
        basic=True,
        lower=0.0,
    )
    ngram: int = setting(
        3,
        "With --masked_lm_budget: longest n-gram to mask as a whole, in words.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
        upper=LONGEST_SEQUENCE,
    )
    pack_sequences: bool = setting(
        False,
        "Put several short examples into each row of --max_seq_length tokens, so that less of it "
        "is padding. Attention, positions and losses stay those of separate examples. "
        "All batch sizes, the check and the log then count rows as examples; the log says how "
        "many examples a row has.",
        FEATURES,
        Affects.WEIGHTS,
        basic=True,
    )
    spm_model_file: str | None = redefined(
        TextSettings, "spm_model_file", None, help=f"SentencePiece model. {_NEEDED}"
    )
    vocab_file: str | None = redefined(
        TextSettings, "vocab_file", None, help=f"WordPiece vocabulary. {_NEEDED}"
    )
    max_eval_steps: int = setting(
        100,
        "Greatest number of batches of --eval_batch_size to score.",
        ANSWERS,
        Affects.SCORES,
        lower=1,
    )
