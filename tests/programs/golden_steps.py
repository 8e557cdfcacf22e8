"""The golden training steps of SQuAD 1.1, with a share of every batch for each worker.

  mpirun -np N python tests/programs/golden_steps.py --golden=FOLDER --init_checkpoint=PREFIX \
    --output_dir=FOLDER --batch_size=8 [--accumulation=1] [--checkpointing] [--wire=float16]

`--batch_size` is each worker's; the golden batches of 8 are cut into parts of that size.
"""

from __future__ import annotations

import argparse
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
    flags = parser.parse_args()
    quieten_tensorflow()
    distributed.start(use_horovod=True)
    distributed.connect()
    curve = np.load(f"{flags.golden}/squad_v1_adamw.npz")
    num_steps = int(curve["num_train_steps"])
    assert flags.batch_size * flags.accumulation * distributed.size() == GOLDEN_BATCH

    def input_fn(params: dict) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices({name: curve[name] for name in NAMES})
        parts = data.batch(flags.batch_size, drop_remainder=True)
        return parts.shard(distributed.size(), distributed.rank())

    options = ModelOptions(
        OptimizerOptions(
            float(curve["learning_rate"]),
            num_steps,
            int(curve["num_warmup_steps"]),
            gradient_accumulation_steps=flags.accumulation,
            allreduce_dtype=tf.as_dtype(flags.wire) if flags.wire else None,
        ),
        flags.init_checkpoint,
        gradient_checkpointing=flags.checkpointing,
    )
    config = modeling.AlbertConfig.from_json_file(f"{flags.golden}/albert_config.json")
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=False), options)
    plan = TrainingPlan(num_steps, GOLDEN_BATCH, flags.accumulation, num_steps, 1, num_steps)
    train(make_estimator(model_fn, flags.output_dir, 1, False), input_fn, plan)


if __name__ == "__main__":
    main()
