"""`transformers` on PyTorch as a program of `benchmarks.parts.program`, as it is or compiled."""

import argparse
import os

import numpy as np
import torch
from transformers import AutoModelForQuestionAnswering

from benchmarks.parts.harness import peak_memory
from benchmarks.parts.program import (
    DECAY,
    EPSILON,
    RATE,
    SEQUENCES,
    TRANSFORMERS,
    Batch,
    Functions,
    in_streams,
    streams_of,
)

_MASKED = -1e30


class Model:
    """A model with its device and its type of products."""

    def __init__(self, settings: argparse.Namespace):
        torch.backends.cuda.matmul.allow_tf32 = settings.dtype == "tf32"
        self.on = torch.device("cuda" if settings.device == "gpu" else "cpu")
        self._dtype = getattr(torch, settings.dtype.replace("tf32", "float32"))
        self.module = AutoModelForQuestionAnswering.from_pretrained(
            os.path.join(settings.model, TRANSFORMERS),
            attn_implementation="sdpa",
            dtype=torch.float32,
            hidden_dropout_prob=settings.dropout,
            attention_probs_dropout_prob=settings.dropout,
        )
        self.module.to(self.on)
        is_compiled = settings.kind == "compiled"
        self._forward = torch.compile(self.module, dynamic=True) if is_compiled else self.module

    def tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(values).to(self.on).long()

    def __call__(self, batch: Batch):
        names = ("input_ids", "attention_mask", "token_type_ids")
        tensors = (self.tensor(batch[name]) for name in SEQUENCES)
        with torch.autocast(self.on.type, self._dtype, enabled=self._dtype != torch.float32):
            return self._forward(**dict(zip(names, tensors, strict=True)))

    def predict(self, batch: Batch) -> list[np.ndarray]:
        """Returns all scores on the host."""
        with torch.inference_mode():
            return [values.float().cpu().numpy() for values in self(batch).values()]

    def loss(self, batch: Batch) -> torch.Tensor:
        """Returns the loss of this project, of positions without padding."""
        padding = (1 - self.tensor(batch["input_mask"])) * _MASKED
        outputs = self(batch)
        losses = []
        for end in ("start", "end"):
            logits, positions = outputs[f"{end}_logits"], self.tensor(batch[f"{end}_positions"])
            losses.append(torch.nn.functional.cross_entropy(logits.float() + padding, positions))
        return 0.5 * sum(losses)


def load(settings: argparse.Namespace) -> Functions:
    """Returns the functions of `transformers`."""
    model = Model(settings)
    memory = torch.cuda.max_memory_allocated if model.on.type == "cuda" else peak_memory
    streams, threads = streams_of(settings)
    torch.set_num_threads(threads)
    if settings.work == "prediction":
        model.module.eval()
        return in_streams(model.predict, streams, lambda: torch.set_num_threads(threads)), memory
    groups = {DECAY: [], 0.0: []}
    for name, weight in model.module.named_parameters():
        is_decayed = not any(word in name for word in ("bias", "LayerNorm", "layer_norm"))
        groups[DECAY if is_decayed else 0.0].append(weight)
    params = [{"params": weights, "weight_decay": decay} for decay, weights in groups.items()]
    optimizer = torch.optim.AdamW(params, RATE, eps=EPSILON, fused=True)
    model.module.train()

    def step(batch: Batch) -> float:
        """Makes a step: gradients, clipping, AdamW."""
        optimizer.zero_grad()
        value = model.loss(batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
        optimizer.step()
        return value.item()

    return lambda batches: map(step, batches), memory
