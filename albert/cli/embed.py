r"""Writes embeddings of texts: the encoder's output for each token, or its pooled output.

  albert embed --input_file=texts.txt --output_file=embeddings.jsonl \
    --model=MODEL --layers=-1,-2,-3,-4

Each line of the input has one text, or two texts separated by " ||| ". MODEL is a folder of
transformers, the --output_dir of a run, an export, or the name of a published model. Instead of it,
a bare checkpoint needs --init_checkpoint, --albert_config_file and --spm_model_file, or
--bert_config_file and --vocab_file. The flags and the JSON are those of Google's
extract_features.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from albert.core.errors import FlagError, UserError
from albert.core.files import check_readable
from albert.core.log import LOG, progress
from albert.settings.engines import AUTO
from albert.settings.fields import (
    DATA,
    FEATURES,
    LARGEST_BATCH,
    LONGEST_SEQUENCE,
    redefined,
    setting,
)
from albert.settings.run_settings import IgnoredSettings, PathSettings
from albert.settings.text_settings import TokenizerSettings
from albert.tables.tables import read_whole_lines

# The help does not need TensorFlow.
if TYPE_CHECKING:
    from albert.inference.folders import OpenModel

_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")


class EmbedSettings(TokenizerSettings, IgnoredSettings, theme=DATA):
    """The texts, the model and the output of `albert embed`."""

    input_file: str = setting(
        "",
        'Text file with one text per line, or two texts separated by " ||| ". Required.',
        path=True,
        basic=True,
    )
    output_file: str = setting(
        "",
        "File for the embeddings, in the order of the texts. Required. A name that ends in .npz "
        "gets NumPy arrays, which are much smaller; others get JSON, with one line per text that "
        "has linex_index and features.",
        path=True,
        basic=True,
    )
    layers: str = setting(
        "-1,-2,-3,-4",
        "Layers to write, separated by commas; -1 is the last one. May be empty with --pooled or "
        "--pooling.",
    )
    pooled: bool = setting(False, "Also write the pooled output, one vector per text.")
    pooling: str = setting(
        "none",
        "Also write `sentence`, one vector per text from the last layer: the mean over all tokens, "
        "including [CLS] and [SEP]; the state of [CLS]; or what the files of sentence-transformers "
        "in the model's folder say (model), also about normalization and a prompt.",
        choices=("none", "mean", "cls", "model"),
    )
    normalize: bool = setting(False, "Divide the vectors of --pooling by their Euclidean norms.")
    model: str = redefined(PathSettings, "model", "")
    init_checkpoint: str = redefined(PathSettings, "init_checkpoint", "")
    albert_config_file: str = redefined(PathSettings, "albert_config_file", "")
    max_seq_length: int = setting(
        128,
        "Longest text, in tokens; longer texts are truncated, and a warning counts them. With "
        "--pooling=model, the default is the model's.",
        FEATURES,
        lower=5,
        upper=LONGEST_SEQUENCE,
    )
    batch_size: int = setting(
        32, "Number of texts in a batch.", FEATURES, lower=1, upper=LARGEST_BATCH
    )


SETTINGS = EmbedSettings


def main(settings: EmbedSettings) -> None:
    """Writes the embeddings of texts; raises a `UserError` if the model or a text is unusable."""
    from albert.inference.embedding import Embedder, write_json_lines, write_npz
    from albert.prediction.engine import choose_engine

    settings.require("input_file", "output_file", ("model", "init_checkpoint"))
    if settings.use_tpu:
        raise FlagError("--use_tpu=true: TPUs are not supported; remove the flag")
    layers = _numbers(settings.layers)
    pooling = "" if settings.pooling == "none" else settings.pooling
    if not (layers or settings.pooled or pooling):
        raise FlagError("nothing to write: pass --layers, --pooled or --pooling")
    if settings.normalize and not pooling:
        raise FlagError("--normalize needs --pooling")
    check_readable(settings.input_file, "--input_file")
    if os.path.realpath(settings.input_file) == os.path.realpath(settings.output_file):
        raise FlagError("--output_file would replace --input_file; give another name")
    with open(settings.input_file, "rb") as file:
        count = sum(1 for _ in file)
    if not count:
        raise UserError(f"--input_file {settings.input_file} is empty; it needs a text per line")
    folder, normalize, prompted = _model(settings), settings.normalize, pooling == "model"
    folder = folder._replace(engine=choose_engine(AUTO, None))
    if prompted:
        pooling, normalize = folder.value("pooling"), normalize or folder.value("normalize")
    vectors = pooling, normalize, prompted
    embedder = Embedder(folder, layers, settings.pooled, settings.batch_size, *vectors)
    embedded = embedder.stream(_texts(settings.input_file))
    write = write_npz if settings.output_file.endswith(".npz") else write_json_lines
    write(settings.output_file, progress(embedded, count, "texts", "texts"))
    LOG.info("Wrote the embeddings of %d texts to %s", count, settings.output_file)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",") if number.strip()]
    except ValueError as e:
        raise FlagError(f"--layers={text} must be numbers separated by commas") from e
    if len(set(numbers)) < len(numbers):
        raise FlagError(f"--layers={text} names a layer twice")
    return numbers


def _model(settings: EmbedSettings) -> OpenModel:
    """Returns the model; raises a `FlagError` for wrong flags, or a too large --max_seq_length."""
    from albert.checkpoints.model_flags import check_given
    from albert.checkpoints.model_folder import TOKENIZERS, ModelFolder, check_model, used_model
    from albert.inference.folders import open_model

    if settings.albert_config_file and not settings.model:
        settings.require(tuple(TOKENIZERS))
        path, flags = settings.init_checkpoint, ("init_checkpoint", "albert_config_file")
        files = {n: file for n in (*flags, *TOKENIZERS) if (file := getattr(settings, n))}
        folder = open_model(ModelFolder(path, files), settings.given_normalization())
        used = used_model(folder.config.forward_values(), files, folder.tokenizer.normalization)
        check_model(path, used, "--init_checkpoint")
    else:
        source = "model" if settings.model else "init_checkpoint"
        model = ModelFolder.find(getattr(settings, source))
        check_given(settings, source, model.flags())
        folder = open_model(model, settings.given_normalization())
    if settings.pooling == "model":
        if "pooling" not in folder.description:
            raise FlagError(
                f"--pooling=model: {folder.path} has no modules.json of sentence-transformers; "
                "pass mean or cls"
            )
        if "max_seq_length" not in settings.given:
            return folder
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
    for _, line in read_whole_lines(path):
        pair = _PAIR.match(line.strip())
        yield pair.groups() if pair else (line.strip(),)
