"""The pretraining task: prediction of masked tokens and of the order of sentences."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import tensorflow.compat.v1 as tf

from albert import tokenization
from albert.core.errors import FlagError
from albert.core.files import content_of
from albert.devices.host import count_cores
from albert.distributed import collectives
from albert.modeling import BertConfig, EncoderConfig
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records import DEV, TRAIN
from albert.records.batches import Data
from albert.records.cached_file import content_of_records
from albert.records.records import RecordFile
from albert.settings.run_settings import RunSettings
from albert.tasks.pretraining.head import KEY_SCORE, make_head, scores_of
from albert.tasks.pretraining.input_pipeline import (
    PackedExamples,
    RecordOptions,
    check_files,
    drawing_masks,
    read_sizes,
)
from albert.tasks.pretraining.masking import Masker, MaskingOptions
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.text import matching_files
from albert.training.evaluation import CheckpointScores
from albert.training.plan import Steps
from albert.training.task import Task

# Flags for fine-tuning that have no effect here.
_UNUSED = {
    "num_train_epochs": "use --train_steps",
    "warmup_proportion": "use --num_warmup_steps",
    "export_dir": "pass it to the fine-tuning",
}


class PretrainingTask(Task):
    """The pretraining task."""

    settings: PretrainingSettings
    kind, best_by = "pretraining", KEY_SCORE
    trims = False
    needs_all_states = False

    def __init__(self, settings: PretrainingSettings):
        _check(settings)
        settings = _with_micro_batches(settings)
        super().__init__(settings)
        if settings.init_from_group0 and isinstance(self.config, BertConfig):
            raise FlagError("--init_from_group0 is for ALBERT only: BERT's layers have no groups")
        if settings.init_from_group0:
            self.num_groups = self.config.num_hidden_groups
        self._options = record_options(settings, self.config)

    @classmethod
    def input_flags(cls, settings: RunSettings) -> Mapping[str, str]:
        has_file = bool(cast(PretrainingSettings, settings).eval_file)
        return {TRAIN: "input_file", DEV: "eval_file" if has_file else "input_file"}

    def files(self, split: str) -> list[str]:
        """Returns the record files of --input_file or, for evaluation, of --eval_file if given."""
        return matching_files(self.input_path(split), self.input_flags(self.settings)[split])

    def split(self, name: str) -> RecordSplit:
        settings, files, options = self.settings, self.files(name), self._options
        if name == TRAIN:
            check_files(files, options)
            packing = self._packed if settings.pack_sequences else None
            return RecordSplit("training", files, len(RecordFile(files)), options, packing)
        if settings.do_train and settings.eval_file and (both := {*self.files(TRAIN)} & {*files}):
            names = ", ".join(sorted(both))
            tf.logging.warning("in both --input_file and --eval_file: %s", names)
        if settings.eval_file or not settings.do_train:
            # Otherwise, they were checked for training.
            check_files(files, options)
        limits = settings.max_eval_steps, settings.predict_batch_size
        return RecordSplit("evaluation", files, len(RecordFile(files)), options, None, *limits)

    @functools.cached_property
    def _packed(self) -> PackedExamples:
        """The order of the training in rows of several examples."""
        workers = count_cores(collectives.local_size())
        sizes = read_sizes(self.files(TRAIN), self._options, workers)
        return PackedExamples(sizes, self._options.seq_length, self.settings.seed)

    def contents(self, split: str) -> dict[str, Any]:
        settings, flag = self.settings, "input_file" if split == TRAIN else "eval_file"
        contents: dict[str, Any] = {flag: list(map(content_of_records, self.files(split)))}
        if settings.masked_lm_budget:
            contents["vocabulary"] = content_of(
                settings.spm_model_file or settings.vocab_file or ""
            )
        return contents

    def steps(self, num_examples: int) -> Steps:
        """Divides the steps by the number of workers, as in the Habana fork.

        A --global_batch_size does not grow with the workers, so that the steps stay the same.
        """
        settings = self.settings
        share = 1 if settings.global_batch_size else collectives.size()
        return Steps(
            max(settings.train_steps // share, 1),
            settings.num_warmup_steps // share,
            settings.start_warmup_step // share,
            settings.poly_power,
        )

    def head(self) -> Head:
        return make_head(self.config)

    def model_inputs(self) -> Mapping[str, Any]:
        if self.settings.do_train and self.settings.pack_sequences:
            return self._packed.spec
        return self._options.spec(with_masks=True)

    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        return CheckpointScores(scores_of(outputs), lambda: None)


class RecordSplit(NamedTuple):
    """Checked record files as a split of a run's data; see `albert.training.task.Split`.

    Attributes:
      packing: the order of rows of several examples, which then count as examples; None for rows
        of one example.
      max_batches, batch_size: the most batches in a pass, and their size; None for no limit.
    """

    name: str
    files: list[str]
    num_records: int
    options: RecordOptions
    packing: PackedExamples | None = None
    max_batches: int | None = None
    batch_size: int = 0

    def describe(self) -> Iterator[tuple[str, object]]:
        yield f"{self.name} records", f"{self.num_records} in {len(self.files)} files"
        if self.packing:
            yield "packing", self.packing.summary()

    def num_examples(self) -> int:
        return self.packing.num_rows if self.packing else self.num_records

    def prepared(self) -> Data:
        options, num_records = self.options, self.num_records
        if self.max_batches is not None:
            num_records = min(num_records, self.max_batches * self.batch_size)
        return Data(
            self.files,
            options.spec(with_masks=not options.masker),
            self.num_examples(),
            num_records,
            max_batches=self.max_batches,
            packing=self.packing,
            transform=drawing_masks(options) if options.masker else None,
        )


def _check(settings: PretrainingSettings) -> None:
    """Raises a `FlagError` if flags contradict each other."""
    if not (settings.do_train or settings.do_eval):
        raise FlagError("nothing to do: at least one of --do_train and --do_eval must be true")
    if settings.do_train or not settings.eval_file:
        settings.require("input_file")
    for name, advice in _UNUSED.items():
        if name in settings.given:
            raise FlagError(f"--{name} has no effect in pretraining; {advice}")
    if settings.train_steps < 1:
        raise FlagError(f"--train_steps must be positive, not {settings.train_steps}")
    if settings.poly_power != 1 and settings.lr_schedule != "linear":
        raise FlagError(
            f"--poly_power={settings.poly_power:g} is for --lr_schedule=linear; remove one of them"
        )
    if settings.masked_lm_budget and not (settings.spm_model_file or settings.vocab_file):
        raise FlagError("--masked_lm_budget needs --spm_model_file or --vocab_file")


def _with_micro_batches(settings: PretrainingSettings) -> PretrainingSettings:
    """Returns settings whose --gradient_accumulation_steps make the --global_batch_size."""
    size, workers = settings.global_batch_size, collectives.size()
    if not size:
        return settings
    if "gradient_accumulation_steps" in settings.given:
        raise FlagError(
            "--global_batch_size sets --gradient_accumulation_steps; remove one of them"
        )
    if settings.scale_learning_rate:
        raise FlagError(
            "--scale_learning_rate is for a batch that grows with the workers, and "
            "--global_batch_size does not; remove one of them"
        )
    micro_batches, rest = divmod(size, settings.train_batch_size * workers)
    if rest:
        where = f" on {workers} workers" if workers > 1 else ""
        raise FlagError(
            f"--global_batch_size {size} cannot be split into batches of --train_batch_size "
            f"{settings.train_batch_size}{where}; change one of them"
        )
    return settings.replaced(gradient_accumulation_steps=micro_batches)


def record_options(settings: PretrainingSettings, config: EncoderConfig) -> RecordOptions:
    """Returns the records' required properties; another model's tokenizer raises a `UserError`."""
    max_predictions = settings.max_predictions_per_seq
    options = RecordOptions(settings.max_seq_length, max_predictions, config.vocab_size)
    if not settings.masked_lm_budget:
        return options
    tokenizer = tokenization.FullTokenizer(settings.vocab_file, True, settings.spm_model_file)
    tokenizer.check_size(config.vocab_size, settings.albert_config_file)
    # Converts the ratio of masked to unmasked tokens to the fraction of masked tokens.
    probability = settings.masked_lm_budget / (1.0 + settings.masked_lm_budget)
    masking = MaskingOptions(max_predictions, probability, settings.ngram)
    masker = Masker(masking, tokenizer.mask_id, tokenizer.size)
    return options._replace(masker=masker, mask_seed=settings.seed)
