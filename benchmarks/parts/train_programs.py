"""The programs that `benchmarks.train` times: this project, and `transformers` in two ways.

For each line of standard input, a program works on all batches in their order and prints its
measurements as a line of JSON. `--program=make` writes the weights for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

Batch = dict[str, np.ndarray]
# A training step or a prediction, the operations per second of a large matrix product, and the peak
# memory in bytes, of the GPU or otherwise of the host.
Functions = tuple[Callable[[Batch], float], Callable[[], float], Callable[[], int]]
# Learning rate; small, so that random weights do not diverge.
_RATE, _EPSILON, _DECAY = 1e-5, 1e-6, 0.01
# Files in the folder of a model.
_BEST, _THEIRS = "model.ckpt-best", "transformers"
_MASKED = -1e30
_SEQUENCES = ("input_ids", "input_mask", "segment_ids")


def main() -> None:
    """Makes the weights, or runs one of the programs until its standard input ends."""
    flags = parse_flags()
    if flags.program == "make":
        make_weights(flags)
        return
    start = {"this project": this_project, "padded": transformers, "dynamic": transformers}
    step, matrix_peak, peak_memory = start[flags.program](flags)
    batches = np.load(flags.batches)
    records = {name: batches[name] for name in batches.files}
    cuts = flags.program != "padded"
    count = len(records["input_mask"]) // flags.batch_size
    work = [batch_of(records, n, flags.batch_size, cuts) for n in range(count)]
    for _ in sys.stdin:
        peak = matrix_peak()
        began = time.perf_counter()
        losses = [step(batch) for batch in work]
        seconds = time.perf_counter() - began
        told = {"seconds": seconds, "matrix_peak": peak, "memory": peak_memory() / 1e9}
        losses = [] if flags.work == "prediction" else losses
        print(json.dumps({**told, "losses": losses}), flush=True)


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", choices=["make", "this project", "padded", "dynamic"])
    parser.add_argument("--model", help="folder of the weights")
    parser.add_argument("--config", help="configuration of the model")
    parser.add_argument("--data", help="train, dev or mrpc")
    parser.add_argument("--batches", help="file of the features")
    parser.add_argument("--work", help="training or prediction")
    parser.add_argument("--dtype", help="type of matrix products")
    parser.add_argument("--batch_size", type=int)
    parser.add_argument("--matrix_size", type=int, help="size of the timed matrix product")
    parser.add_argument("--device", help="cpu or gpu")
    return parser.parse_args()


def batch_of(records: Batch, number: int, size: int, cuts: bool) -> Batch:
    """Returns a batch, trimmed to its longest row or not."""
    rows = {name: values[number * size :][:size] for name, values in records.items()}
    if not cuts:
        return rows
    length = int(rows["input_mask"].sum(axis=1).max())
    return {
        name: values[:, :length] if values.ndim == 2 else values for name, values in rows.items()
    }


def fastest_product(product: Callable[[], object], size: int) -> float:
    """Returns the operations per second of a product of two square matrices, the best of three."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - began)
    return 2.0 * size**3 / min(seconds)


def config_of(flags: argparse.Namespace):
    """Returns the configuration, without dropout."""
    from albert.modeling import read_config

    config = read_config(flags.config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return config


def head_of(flags: argparse.Namespace):
    """Returns the head for the data, without dropout."""
    from albert.tasks.glue.task import make_head
    from albert.tasks.squad.head import make_v1_head

    return make_head(2, 0.0) if flags.data == "mrpc" else make_v1_head(mask_padding_in_loss=True)


def make_weights(flags: argparse.Namespace) -> None:
    """Writes random weights, for this project and for `transformers`."""
    from albert.convert.convert import ConversionOptions, to_transformers
    from benchmarks.ask import tokenizer_of_size, write_random_weights

    os.makedirs(flags.model)
    config = config_of(flags)
    write_random_weights(flags.model, config, head_of(flags))
    # It is not read, but a model without a tokenizer cannot be converted.
    tokenizer = os.path.join(flags.model, "spm.model")
    with open(tokenizer, "wb") as file:
        file.write(tokenizer_of_size(config.vocab_size))
    options = ConversionOptions(config_file=flags.config, spm_model_file=tokenizer)
    to_transformers(os.path.join(flags.model, _BEST), os.path.join(flags.model, _THEIRS), options)


def host_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def this_project(flags: argparse.Namespace) -> Functions:
    """Returns the functions of this project."""
    import tensorflow as tf2
    import tensorflow.compat.v1 as tf

    from albert.core import estimators
    from albert.devices import device, memory_use
    from albert.optimization import OptimizerOptions
    from albert.precision import configuration, conversion
    from albert.training.model_fn import ModelOptions, make_model_fn

    device.choose(flags.device)
    device.prepare()
    tf2.config.experimental.enable_tensor_float_32_execution(flags.dtype == "tf32")
    is_training = flags.work == "training"
    optimizer = OptimizerOptions(
        _RATE, 10**9, optimizer="radam", epsilon=_EPSILON, weight_decay=_DECAY
    )
    options = ModelOptions(optimizer, remove_padding=True)
    model_fn = make_model_fn(config_of(flags), head_of(flags), options)
    if flags.dtype == "bfloat16":
        os.environ.setdefault("TF_BF16_CONVERSION", "1")
        model_fn = conversion.convert(model_fn, configuration.from_environment(), device.kind())
    session = tf.Session(graph=tf.Graph(), config=device.session_config())
    with session.graph.as_default():
        records = np.load(flags.batches)
        inputs = {
            name: tf.placeholder(records[name].dtype, [None] * records[name].ndim, name)
            for name in records.files
        }
        modes = estimators.ModeKeys
        spec = model_fn(inputs, None, modes.TRAIN if is_training else modes.PREDICT, {})
        fetched = [spec.loss, spec.train_op] if is_training else list(spec.predictions.values())
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        checkpoint = os.path.join(flags.model, _BEST)
        tf.train.Saver(tf.trainable_variables()).restore(session, checkpoint)

    def step(batch: Batch) -> float:
        values = session.run(fetched, {inputs[name]: values for name, values in batch.items()})
        return float(values[0]) if is_training else 0.0

    products = tf.Session(graph=tf.Graph(), config=device.session_config())
    with products.graph.as_default():
        shape, ones = [flags.matrix_size] * 2, tf.ones_initializer()
        dtype = tf.as_dtype(flags.dtype.replace("tf32", "float32"))
        a, b = (tf.get_variable(name, shape, dtype, ones, use_resource=True) for name in "ab")
        product = tf.matmul(a, b).op
        products.run(tf.global_variables_initializer())

    def peak_memory() -> int:
        of_device = memory_use.device_memory()
        return of_device.peak if of_device else host_memory()

    return (
        step,
        lambda: fastest_product(lambda: products.run(product), flags.matrix_size),
        peak_memory,
    )


def transformers(flags: argparse.Namespace) -> Functions:
    """Returns the functions of `transformers`."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    on = torch.device("cuda" if flags.device == "gpu" else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = flags.dtype == "tf32"
    is_classifier = flags.data == "mrpc"
    kind = AutoModelForSequenceClassification if is_classifier else AutoModelForQuestionAnswering
    off = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    model = kind.from_pretrained(os.path.join(flags.model, _THEIRS), **off).to(on)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    dtype = getattr(torch, flags.dtype.replace("tf32", "float32"))

    def tensor(values: np.ndarray):
        return torch.as_tensor(values).to(on)

    def scores(batch: Batch) -> dict:
        names = ("input_ids", "attention_mask", "token_type_ids")
        tensors = (tensor(batch[name]).long() for name in _SEQUENCES)
        with torch.autocast(on.type, dtype, enabled=dtype != torch.float32):
            return model(**dict(zip(names, tensors, strict=True)))

    def loss(batch: Batch):
        cross_entropy = torch.nn.functional.cross_entropy
        if is_classifier:
            labels = tensor(batch["label_ids"]).long()
            return cross_entropy(scores(batch).logits.float(), labels)
        padding = (1 - tensor(batch["input_mask"]).float()) * _MASKED
        found = scores(batch)
        pairs = (
            (found.start_logits, batch["start_positions"]),
            (found.end_logits, batch["end_positions"]),
        )
        return 0.5 * sum(
            cross_entropy(logits.float() + padding, tensor(positions).long())
            for logits, positions in pairs
        )

    size = flags.matrix_size
    a, b = (torch.ones(size, size, dtype=dtype, device=on) for _ in "ab")

    def product() -> None:
        with torch.inference_mode():
            a @ b
        if on.type == "cuda":
            torch.cuda.synchronize()

    step = trainer(model, loss) if flags.work == "training" else predictor(model, scores)
    peak_memory = torch.cuda.max_memory_allocated if on.type == "cuda" else host_memory
    return step, lambda: fastest_product(product, size), peak_memory


def trainer(model, loss: Callable) -> Callable[[Batch], float]:
    """Returns a function that makes a step of PyTorch: gradients, clipping, RAdam."""
    import torch

    def is_decayed(name: str) -> bool:
        return not any(part in name for part in ("bias", "LayerNorm", "layer_norm"))

    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    groups = [
        {"params": [w for name, w in named if is_decayed(name) == decays], "weight_decay": rate}
        for decays, rate in ((True, _DECAY), (False, 0.0))
    ]
    optimizer = torch.optim.RAdam(groups, _RATE, eps=_EPSILON, decoupled_weight_decay=True)
    model.train()

    def step(batch: Batch) -> float:
        optimizer.zero_grad()
        value = loss(batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return value.item()

    return step


def predictor(model, scores: Callable) -> Callable[[Batch], float]:
    """Returns a function that predicts a batch."""
    import torch

    model.eval()

    def step(batch: Batch) -> float:
        with torch.inference_mode():
            # To the host, as TensorFlow's session copies them.
            for values in scores(batch).values():
                values.cpu()
        return 0.0

    return step


if __name__ == "__main__":
    main()
