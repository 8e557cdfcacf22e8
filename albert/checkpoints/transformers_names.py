"""Maps variable names of ALBERT and BERT to those of Hugging Face's `transformers`.

The names on both sides depend only on the configuration. `transformers` stores the transposed
matrix of a dense layer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from albert.core.errors import UserError
from albert.core.text import listed

# Parts of a model, by their names in messages.
POOLER, MASKED_TOKENS, NEXT_SENTENCE = "pooler", "masked tokens", "next sentence"
SQUAD_V1, SQUAD_V2, CLASSIFIER = "SQuAD 1.1", "SQuAD 2.0", "classification"
# A head for choices is one for classification with one row.
TOKENS, CHOICE = "token classification", "multiple choice"
# Parts whose models have no pooler in `transformers`; the graphs here have one without using it.
WITHOUT_POOLER = {SQUAD_V1, TOKENS}
ENCODER = "encoder"


class VariablePair(NamedTuple):
    """A variable, by its names in this project (`ours`) and in `transformers` (`theirs`).

    Attributes:
      shape: the shape in this project; -1 for a size that the configuration does not determine.
      is_transposed: whether `transformers` stores it transposed.
    """

    ours: str
    theirs: str
    shape: tuple[int, ...]
    is_transposed: bool = False


class Block(NamedTuple):
    """The names of the layers of a block: attention, and two dense layers after each other."""

    attention: str
    output: str
    output_norm: str
    wide: str
    narrow: str
    norm: str


_BERT = Block(
    "attention.self",
    *("attention.output.dense", "attention.output.LayerNorm"),
    *("intermediate.dense", "output.dense", "output.LayerNorm"),
)
# A block of an ALBERT in `transformers`, and in this project.
_ALBERT = Block(
    *("attention", "attention.dense", "attention.LayerNorm"),
    *("ffn", "ffn_output", "full_layer_layer_norm"),
)
_OURS = Block(
    *("attention_1/self", "attention_1/output/dense", "LayerNorm"),
    *("ffn_1/intermediate/dense", "ffn_1/intermediate/output/dense", "LayerNorm_1"),
)


def pairs_of(family: str, config: Mapping) -> dict[str, list[VariablePair]]:
    """Returns the variables of each part that a model with this configuration may have."""
    hidden, words = config["hidden_size"], config["vocab_size"]
    is_albert = family == "albert"
    width = config["embedding_size"] if is_albert else hidden
    theirs = "" if is_albert else "cls."
    order = "sop_classifier.classifier" if is_albert else "cls.seq_relationship"
    transform = "predictions" if is_albert else "cls.predictions.transform"
    pooler = "albert.pooler" if is_albert else "bert.pooler.dense"
    return {
        ENCODER: [*_embeddings(family, config, width), *_layers(family, config)],
        POOLER: _dense("bert/pooler/dense", pooler, hidden, hidden),
        MASKED_TOKENS: [
            *_dense("cls/predictions/transform/dense", f"{transform}.dense", hidden, width),
            *_norm("cls/predictions/transform/LayerNorm", f"{transform}.LayerNorm", width),
            VariablePair("cls/predictions/output_bias", f"{theirs}predictions.bias", (words,)),
        ],
        NEXT_SENTENCE: _scores("cls/seq_relationship/", order, 2, hidden),
        SQUAD_V1: _scores("cls/squad/", "qa_outputs", 2, hidden),
        SQUAD_V2: [
            *_dense("start_logits/dense", "start_logits.dense", hidden, 1),
            *_dense("end_logits/dense_0", "end_logits.dense_0", 2 * hidden, hidden),
            *_norm("end_logits/LayerNorm", "end_logits.LayerNorm", hidden),
            *_dense("end_logits/dense_1", "end_logits.dense_1", hidden, 1),
            *_dense("answer_class/dense_0", "answer_class.dense_0", 2 * hidden, hidden),
            _dense("answer_class/dense_1", "answer_class.dense_1", hidden, 1)[0],
        ],
        CLASSIFIER: _scores("", "classifier", -1, hidden),
        TOKENS: _scores("cls/ner/", "classifier", -1, hidden),
    }


def mapping_in(config: Mapping) -> list[VariablePair]:
    """Returns the layer between ALBERT's embeddings and encoder.

    In this project the layer exists only if their widths differ; in `transformers`, always.
    """
    name = "encoder/embedding_hidden_mapping_in"
    theirs = f"albert.{name.replace('/', '.')}"
    return _dense(f"bert/{name}", theirs, config["embedding_size"], config["hidden_size"])


def _embeddings(family: str, config: Mapping, width: int) -> Iterator[VariablePair]:
    rows = {
        "word": config["vocab_size"],
        "position": config["max_position_embeddings"],
        "token_type": config["type_vocab_size"],
    }
    for kind, count in rows.items():
        name = f"embeddings.{kind}_embeddings"
        ours = f"bert/{name.replace('.', '/')}"
        yield VariablePair(ours, f"{family}.{name}.weight", (count, width))
    yield from _norm("bert/embeddings/LayerNorm", f"{family}.embeddings.LayerNorm", width)


def block_names(family: str, group: int, inner: int) -> tuple[Block, Block]:
    """Returns the names of a block in this project and in `transformers`.

    Each layer of BERT is a separate group, with one block.
    """
    if family == "bert":
        ours, theirs = f"bert/encoder/layer_{group}/", f"bert.encoder.layer.{group}."
        own = (name.replace(".", "/") for name in _BERT)
        return Block(*(ours + name for name in own)), Block(*(theirs + name for name in _BERT))
    ours = f"bert/encoder/transformer/group_{group}/inner_group_{inner}/"
    theirs = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}."
    return Block(*(ours + name for name in _OURS)), Block(*(theirs + name for name in _ALBERT))


def _layers(family: str, config: Mapping) -> Iterator[VariablePair]:
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    groups = config["num_hidden_layers" if family == "bert" else "num_hidden_groups"]
    blocks = 1 if family == "bert" else config["inner_group_num"]
    if family == "albert" and config["embedding_size"] != hidden:
        yield from mapping_in(config)
    for group, inner in itertools.product(range(groups), range(blocks)):
        ours, theirs = block_names(family, group, inner)
        for name in ("query", "key", "value"):
            scopes = f"{ours.attention}/{name}", f"{theirs.attention}.{name}"
            yield from _dense(*scopes, hidden, hidden)
        yield from _dense(ours.output, theirs.output, hidden, hidden)
        yield from _norm(ours.output_norm, theirs.output_norm, hidden)
        yield from _dense(ours.wide, theirs.wide, hidden, wide)
        yield from _dense(ours.narrow, theirs.narrow, wide, hidden)
        yield from _norm(ours.norm, theirs.norm, hidden)


def _dense(ours: str, theirs: str, inputs: int, outputs: int) -> list[VariablePair]:
    return [
        VariablePair(f"{ours}/kernel", f"{theirs}.weight", (inputs, outputs), is_transposed=True),
        VariablePair(f"{ours}/bias", f"{theirs}.bias", (outputs,)),
    ]


def _norm(ours: str, theirs: str, width: int) -> list[VariablePair]:
    return [
        VariablePair(f"{ours}/gamma", f"{theirs}.weight", (width,)),
        VariablePair(f"{ours}/beta", f"{theirs}.bias", (width,)),
    ]


def _scores(ours: str, theirs: str, count: int, width: int) -> list[VariablePair]:
    return [
        VariablePair(f"{ours}output_weights", f"{theirs}.weight", (count, width)),
        VariablePair(f"{ours}output_bias", f"{theirs}.bias", (count,)),
    ]


def parts_in(
    pairs: Mapping[str, list[VariablePair]],
    shapes: Mapping[str, Sequence[int]],
    where: str,
    theirs: bool,
) -> list[str]:
    """Returns the parts of a model that variables, given by their shapes, belong to.

    `where` is the checkpoint's path, for messages; `theirs`: whether names and shapes are those of
    `transformers`. Raises a `UserError` if variables are missing, have another shape, or belong to
    no part.
    """
    by_part = {
        part: {pair.theirs if theirs else pair.ours: pair for pair in members}
        for part, members in pairs.items()
    }
    parts = [p for p, named in by_part.items() if p == ENCODER or named.keys() & shapes.keys()]
    required = {name: pair for part in parts for name, pair in by_part[part].items()}
    if missing := required.keys() - shapes.keys():
        raise UserError(f"{where} lacks {listed(sorted(missing))}, which its config requires")
    if others := shapes.keys() - required.keys():
        known = ", ".join(part for part in pairs if part != ENCODER)
        raise UserError(
            f"{where} has {listed(sorted(others))}, which no supported model has; supported: an "
            f"encoder, with or without {known}"
        )
    for name, pair in required.items():
        shape = pair.shape[::-1] if theirs and pair.is_transposed else pair.shape
        actual = list(shapes[name])
        if len(actual) != len(shape) or any(
            size not in (-1, other) for size, other in zip(shape, actual, strict=True)
        ):
            raise UserError(
                f"{where}: {name} has shape {actual}, but its configuration requires {list(shape)}"
            )
    return parts
