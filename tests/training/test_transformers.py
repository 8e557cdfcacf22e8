"""Fine-tuning follows that of `transformers` and PyTorch, loss by loss."""

import numpy as np

from tests.helpers.checkpoints import losses
from tests.helpers.fixtures import SIZES
from tests.helpers.running import albert, succeed
from tests.helpers.tiny_runs import WORDS

STEPS, WARMUP, RATE, DECAY = 40, 4, 2e-3, 0.1
LABELS = [0.5, 4, 2, 5, 1.25, 3]
RECIPE = {"optimizer": "adamw_corrected", "learning_rate": RATE, "weight_decay": DECAY}
RECIPE |= {"train_steps": STEPS, "warmup_step": WARMUP, "train_batch_size": len(LABELS)}


def test_losses_equal_those_of_transformers(squad_dir, tmp_path, torch):
    """Without dropout. A batch has all rows, so their order does not matter."""
    import transformers

    tokenizer = transformers.BertTokenizerFast(str(squad_dir / "vocab.txt"))
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(
        **SIZES, **rates, vocab_size=len(tokenizer), num_labels=1, problem_type="regression"
    )
    torch.manual_seed(1)
    model = transformers.BertForSequenceClassification(config).train()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, rng.integers(2, 20))) for _ in LABELS]
    rows = [("text", "score"), *zip(texts, LABELS, strict=True)]
    table = tmp_path / "table.tsv"
    table.write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    run = {**RECIPE, "model": tmp_path / "model", "output_dir": tmp_path / "run", "log_steps": 1}
    run |= {"tsv_regression": True, "do_eval": False, "deterministic_run": True}
    succeed(albert("classify", table, *(f"--{name}={value}" for name, value in run.items())))

    groups = {DECAY: [], 0.0: []}
    for name, parameter in model.named_parameters():
        groups[0.0 if "bias" in name or "LayerNorm" in name else DECAY].append(parameter)
    decayed = [{"params": group, "weight_decay": decay} for decay, group in groups.items()]
    optimizer = torch.optim.AdamW(decayed, eps=1e-6)
    inputs, expected = tokenizer(texts, padding=True, return_tensors="pt"), []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (step / WARMUP if step < WARMUP else 1 - step / STEPS)
        loss = model(**inputs, labels=torch.tensor(LABELS)).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert norm > 1
        optimizer.step()
        optimizer.zero_grad()
        expected.append(loss.item())
    assert expected[-1] < 0.8 * expected[0]
    np.testing.assert_allclose(losses(tmp_path / "run"), expected, rtol=1e-3)
