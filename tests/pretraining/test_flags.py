"""The flags of pretraining."""

from __future__ import annotations

from tests.helpers.files import defaults_of

# Of run_pretraining.py of google-research/albert.
REFERENCE = {
    "max_seq_length": 512,
    "max_predictions_per_seq": 20,
    "do_train": True,
    "do_eval": False,
    "train_batch_size": 4096,
    "optimizer": "lamb",
    "learning_rate": 0.00176,
    "poly_power": 1.0,
    "num_warmup_steps": 3125,
    "start_warmup_step": 0,
    "save_checkpoints_steps": 5000,
    "keep_checkpoint_max": 5,
    "max_eval_steps": 100,
    "init_from_group0": False,
    "masked_lm_budget": 0.0,
}
# Those that have a name of ours, of which the reference's is an alias.
RENAMED = {"predict_batch_size": 64, "train_steps": 125000}


def test_defaults():
    found = defaults_of("run_pretraining")
    expected = REFERENCE | RENAMED
    assert {name: found[name] for name in expected} == expected
    assert {"eval_batch_size", "num_train_steps"} <= found.keys()
