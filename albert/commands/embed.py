"""Writes embeddings of texts: the encoder's output for each token, or its pooled output."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.checkpoints.model_folder import TOKENIZERS, check_model, used_model
from albert.cli.embed import EmbedSettings
from albert.core.errors import FlagError, UserError
from albert.core.files import check_readable
from albert.core.log import progress
from albert.inference.base import normalized
from albert.inference.embedding import Embedder, Embedding
from albert.inference.embedding_files import write_json_lines, write_npz
from albert.inference.folders import ModelFolder, assemble_folder, open_folder
from albert.tokenization import FullTokenizer

_WRITERS = {"json": write_json_lines, "npz": write_npz}
_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")


def main(settings: EmbedSettings) -> None:
    """Writes the embeddings of texts; raises a `UserError` if the model or a text is unusable."""
    settings.require("input_file", "output_file", "init_checkpoint")
    if settings.use_tpu:
        raise FlagError("--use_tpu=true: TPUs are not supported; remove the flag")
    layers = _numbers(settings.layers)
    pooling = "" if settings.pooling == "none" else settings.pooling
    if not (layers or settings.pooled or pooling):
        raise FlagError("nothing to write: pass --layers, --pooled or --pooling")
    if settings.normalize and not pooling:
        raise FlagError("--normalize needs --pooling=mean or --pooling=cls")
    check_readable(settings.input_file, "--input_file")
    if os.path.realpath(settings.input_file) == os.path.realpath(settings.output_file):
        raise FlagError("--output_file would replace --input_file; give another name")
    with open(settings.input_file, "rb") as file:
        count = sum(1 for _ in file)
    if not count:
        raise UserError(f"--input_file {settings.input_file} is empty; it needs a text per line")
    embedder = Embedder(_model(settings), layers, settings.pooled, settings.batch_size, pooling)
    embedded = embedder.embed(_texts(settings.input_file))
    if settings.normalize:
        embedded = map(_unit_length, embedded)
    write = _WRITERS[settings.output_format]
    write(settings.output_file, progress(embedded, count, "texts", "texts"))
    tf.logging.info("Wrote the embeddings of %d texts to %s", count, settings.output_file)


def _unit_length(text: Embedding) -> Embedding:
    assert text.sentence is not None
    return text._replace(sentence=normalized(text.sentence))


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",") if number.strip()]
    except ValueError as e:
        raise FlagError(f"--layers={text} must be numbers separated by commas") from e
    if len(set(numbers)) < len(numbers):
        raise FlagError(f"--layers={text} names a layer twice")
    return numbers


def _model(settings: EmbedSettings) -> ModelFolder:
    """Returns the model; raises a `FlagError` for missing flags or a too large --max_seq_length."""
    if settings.albert_config_file:
        settings.require(tuple(TOKENIZERS))
        path, names = settings.init_checkpoint, (settings.vocab_file, settings.spm_model_file)
        tokenizer = FullTokenizer(names[0], settings.do_lower_case, names[1])
        config_file, checkpoint = settings.albert_config_file, resolve_checkpoint(path)
        folder = assemble_folder(path, {}, checkpoint, config_file, tokenizer)
        files = {"spm_model_file": settings.spm_model_file, "vocab_file": settings.vocab_file}
        model = used_model(folder.config.forward_values(), files, settings.do_lower_case)
        check_model(path, model, "--init_checkpoint")
    else:
        for name in (*TOKENIZERS, "do_lower_case"):
            if name in settings.given:
                raise FlagError(
                    f"--{name} needs --albert_config_file; an export or a run has its own tokenizer"
                )
        folder = open_folder(settings.init_checkpoint)
    longest = folder.config.max_position_embeddings
    if settings.max_seq_length > longest:
        raise FlagError(
            f"--max_seq_length {settings.max_seq_length} is more than the model's {longest} "
            "positions; lower it"
        )
    described = {**folder.description, "max_seq_length": settings.max_seq_length}
    return folder._replace(description=described)


def _texts(path: str) -> Iterator[tuple[str, ...]]:
    """Yields the one or two texts of each line; raises a `UserError` if one is not UTF-8."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as e:
                raise UserError(f"{path}: line {number} is not UTF-8") from e
            pair = _PAIR.match(text)
            yield pair.groups() if pair else (text,)
