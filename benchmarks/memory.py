"""Measures the resident memory of a SQuAD training with and without --gradient_checkpointing.

Each training runs in a separate process on the CPU, with random weights, for one step of two
accumulated batches; later steps need no more memory. The table has the peak and the estimate of
`albert check`. Without checkpointing, ALBERT-xxlarge needs more memory than many machines have; a
training that is estimated to exceed the memory is not run.

With --table nothing is trained: the same estimate gives the largest batches that fit into cards.
"""

import functools
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.devices.memory_use import peak_host_memory
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.preflight.memory import cpu_memory, estimate_memory, format_bytes, host_memory
from benchmarks.parts import step
from benchmarks.parts.flags import Flags, parse
from benchmarks.parts.harness import Table, Way, in_turns, seconds_of

_CARDS = (16, 32)  # GB


def main() -> None:
    """Lets the ways take turns and prints the table, or prints that of the cards."""
    config = "configs/albert_xxlarge_v2.json"
    flags = parse(__doc__, WAYS, config=config, batch_size=4, seq_length=384, table=False)
    if flags.table:
        print_table(flags.seq_length)
        return
    table = Table("peak", "estimate", "ratio", "seconds")
    for way, ((estimate, peak, seconds),) in in_turns(WAYS, 1).items():
        times = [f"{estimate / peak:.2f}", f"{seconds:.0f}"] if peak else []
        table.row(way, format_bytes(peak) if peak else "not run", format_bytes(estimate), *times)


def print_table(length: int) -> None:
    """Prints the largest batches of every ALBERT in cards, without and with checkpointing."""
    cards = "".join(f" {gb} GB | {gb} GB, checkpointing |" for gb in _CARDS)
    print(f"| ALBERT |{cards}\n|---|{'---|' * 2 * len(_CARDS)}")
    for name in ("base", "large", "xlarge", "xxlarge"):
        needs = [functools.cache(functools.partial(need, name, length, way)) for way in (0, 1)]
        sizes = [largest_batch(gb * 10**9, needed) for gb in _CARDS for needed in needs]
        print(f"| {name} |{''.join(f' {number} |' for number in sizes)}", flush=True)


def need(name: str, length: int, checkpointing: bool, batch_size: int) -> int:
    """Returns the bytes that a step needs on a card."""
    with tf.Graph().as_default():
        path = f"configs/albert_{name}_v2.json"
        return estimate_memory(make_step(path, batch_size, length, checkpointing)[0])["in all"]


def largest_batch(memory: int, needed: Callable[[int], int]) -> int:
    """Returns the largest batch that needs no more than `memory`; 0 for none."""
    size = 64
    # Newton's method: each additional example needs about the same memory, or slightly more.
    while more := (memory - needed(size)) // (needed(size + 1) - needed(size)):
        size += more
        if size < 1:
            return 0
    return size


def train(flags: Flags) -> tuple[int, int, float]:
    """Runs a step; returns estimated bytes, peak bytes, and seconds of the second batch. Nothing is
    run, and the peak is 0, if the estimate exceeds the memory."""
    with tf.Graph().as_default():
        sizes, memory = (flags.batch_size, flags.seq_length), host_memory()
        operation, feed = make_step(flags.config, *sizes, flags.way == "with")
        estimate = peak_host_memory() + cpu_memory(estimate_memory(operation))
        if memory and estimate > memory.size:
            return estimate, 0, 0.0
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            _, seconds = (seconds_of(lambda: session.run(operation, feed)) for _ in range(2))
    return estimate, peak_host_memory(), seconds


def make_step(
    config_file: str, batch_size: int, length: int, checkpointing: bool, accumulation: int = 2
) -> tuple[tf.Operation, dict]:
    """Returns a batch's part of a training step in the current graph, and what to feed."""
    config = modeling.AlbertConfig.from_json_file(config_file)
    accumulating = {"optimizer": "adamw", "gradient_accumulation_steps": accumulation}
    optimizer = OptimizerOptions(5e-5, 100, 10, **accumulating)
    options = ModelOptions(optimizer, gradient_checkpointing=checkpointing)
    tf.set_random_seed(1)
    batch = step.make_batch(config, batch_size, length)
    spec, inputs = step.make_step(config, batch, options)
    return spec.train_op, {inputs[name]: values for name, values in batch.items()}


WAYS = dict.fromkeys(("with", "without"), Way(train))

if __name__ == "__main__":
    main()
