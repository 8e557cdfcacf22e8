"""The golden training steps of SQuAD 1.1, with a share of every batch for each worker.

  mpirun -np N python tests/programs/golden_steps.py --golden=FOLDER --init_checkpoint=PREFIX \
    --output_dir=FOLDER --batch_size=8 [--accumulation=1] [--checkpointing] [--wire=float16] \
    [--shard=none] [--save_every=20]

`--batch_size` is each worker's; the golden batches of 8 are cut into parts of that size. Where the
folder has a checkpoint, it is gone on from.
"""

from __future__ import annotations

import argparse
import glob
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.

import tensorflow.compat.v1 as tf  # isort: skip

import modeling
from encoder_task import ModelOptions, make_model_fn
from optimization import OptimizerOptions
from runtime import distributed
from runtime.checkpoints.checkpoint_files import newest_checkpoint
from runtime.ending import quieten_tensorflow
from runtime.training.loop import TrainingPlan, make_estimator, train
from squad.head import make_v1_head

GOLDEN_BATCH = 8
NAMES = ("input_ids", "input_mask", "segment_ids", "start_positions", "end_positions")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("golden", "init_checkpoint", "output_dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--wire")
    parser.add_argument("--shard", default="none")
    parser.add_argument("--save_every", type=int)
    flags = parser.parse_args()
    start_worker()
    curve = np.load(f"{flags.golden}/squad_v1_adamw.npz")
    num_steps = int(curve["num_train_steps"])
    assert flags.batch_size * flags.accumulation * distributed.size() == GOLDEN_BATCH

    done = distributed.share(newest_step(flags.output_dir))

    def input_fn() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices({name: curve[name] for name in NAMES})
        parts = data.batch(flags.batch_size, drop_remainder=True)
        own = parts.shard(distributed.size(), distributed.rank())
        return own.skip(done * flags.accumulation)

    options = ModelOptions(
        OptimizerOptions(
            float(curve["learning_rate"]),
            num_steps,
            int(curve["num_warmup_steps"]),
            gradient_accumulation_steps=flags.accumulation,
            allreduce_dtype=tf.as_dtype(flags.wire) if flags.wire else None,
            shard_optimizer=flags.shard,
        ),
        flags.init_checkpoint,
        gradient_checkpointing=flags.checkpointing,
    )
    (config,) = map(modeling.read_config, glob.glob(f"{flags.golden}/*_config.json"))
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=False), options)
    every = flags.save_every or num_steps
    plan = TrainingPlan(num_steps, GOLDEN_BATCH, flags.accumulation, every, 1, num_steps)
    train(make_estimator(model_fn, flags.output_dir, 1, False), input_fn, plan)


def start_worker() -> None:
    """Makes this process one of the workers."""
    # Steps are short.
    os.environ["HOROVOD_CYCLE_TIME"] = "5"
    quieten_tensorflow()
    distributed.start(use_horovod=True)
    distributed.connect()
    # Several vectors, also of a small model.
    distributed._VECTOR_BYTES = 100_000


def newest_step(folder: str) -> int:
    """The step of the newest checkpoint, which the training goes on from; 0 without one."""
    newest = newest_checkpoint(folder)
    return newest[0] if newest else 0


if __name__ == "__main__":
    main()
