"""`transformers` on PyTorch as a program of `benchmarks.parts.program`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

from benchmarks.parts.program import (
    DECAY,
    EPSILON,
    RATE,
    SEQUENCES,
    TRANSFORMERS,
    Batch,
    Functions,
    host_memory,
)

_MASKED = -1e30


def functions(flags: argparse.Namespace) -> Functions:
    """Returns the functions of `transformers`."""
    model = Model(flags)
    peak_memory = torch.cuda.max_memory_allocated if model.on.type == "cuda" else host_memory
    return (trainer if flags.work == "training" else predictor)(model), peak_memory


class Model:
    """A model with its device and its type of products.

    Flags of `benchmarks.parts.program` choose them. The settings in `options` are:

      attention: "sdpa" or "eager".
      compile: whether `torch.compile` compiles the model for shapes of any size.
      flush_denormal: whether tiny numbers count as zero.
      converts: whether the weights have the type of the products, instead of `torch.autocast`.
    """

    def __init__(self, flags: argparse.Namespace):
        options: dict[str, Any] = flags.options
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        torch.set_flush_denormal(options.get("flush_denormal", False))
        torch.backends.cuda.matmul.allow_tf32 = flags.dtype == "tf32"
        self.on = torch.device("cuda" if flags.device == "gpu" else "cpu")
        self.is_classifier = flags.data == "mrpc"
        self._dtype = getattr(torch, flags.dtype.replace("tf32", "float32"))
        self._converts = options.get("converts", False)
        kinds = AutoModelForSequenceClassification, AutoModelForQuestionAnswering
        off = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
        self.module = kinds[not self.is_classifier].from_pretrained(
            os.path.join(flags.model, TRANSFORMERS),
            attn_implementation=options.get("attention", "sdpa"),
            dtype=self._dtype if self._converts else torch.float32,
            **off,
        )
        self.module.to(self.on)
        for module in self.module.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        compiles = options.get("compile", False)
        self._forward = torch.compile(self.module, dynamic=True) if compiles else self.module

    def tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(values).to(self.on)

    def __call__(self, batch: Batch):
        names = ("input_ids", "attention_mask", "token_type_ids")
        tensors = (self.tensor(batch[name]).long() for name in SEQUENCES)
        mixes = self._dtype != torch.float32 and not self._converts
        with torch.autocast(self.on.type, self._dtype, enabled=mixes):
            return self._forward(**dict(zip(names, tensors, strict=True)))

    def predict(self, batch: Batch) -> list[np.ndarray]:
        """Returns all scores on the host."""
        with torch.inference_mode():
            return [values.float().cpu().numpy() for values in self(batch).values()]


def predictor(model: Model) -> Callable[[Batch], float]:
    """Returns a function that predicts a batch."""
    model.module.eval()

    def step(batch: Batch) -> float:
        model.predict(batch)
        return 0.0

    return step


def trainer(model: Model) -> Callable[[Batch], float]:
    """Returns a function that makes a step of PyTorch: gradients, clipping, RAdam."""

    def is_decayed(name: str) -> bool:
        return not any(part in name for part in ("bias", "LayerNorm", "layer_norm"))

    named = [(n, weight) for n, weight in model.module.named_parameters() if weight.requires_grad]
    groups = [
        {"params": [w for name, w in named if is_decayed(name) == decays], "weight_decay": rate}
        for decays, rate in ((True, DECAY), (False, 0.0))
    ]
    optimizer = torch.optim.RAdam(groups, RATE, eps=EPSILON, decoupled_weight_decay=True)
    model.module.train()

    def step(batch: Batch) -> float:
        optimizer.zero_grad()
        value = loss(model, batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
        optimizer.step()
        return value.item()

    return step


def loss(model: Model, batch: Batch) -> torch.Tensor:
    """Returns the loss of this project: of labels, or of positions without padding."""
    cross_entropy = torch.nn.functional.cross_entropy
    if model.is_classifier:
        labels = model.tensor(batch["label_ids"]).long()
        return cross_entropy(model(batch).logits.float(), labels)
    padding = (1 - model.tensor(batch["input_mask"]).float()) * _MASKED
    found = model(batch)
    pairs = (
        (found.start_logits, batch["start_positions"]),
        (found.end_logits, batch["end_positions"]),
    )
    return 0.5 * sum(
        cross_entropy(logits.float() + padding, model.tensor(positions).long())
        for logits, positions in pairs
    )
