"""Runs benchmarks on tiny input, as commands: everything they call exists.

`.ci/run` itself runs `features` and `scaling`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.helpers.forking import ROOT
from tests.helpers.squad import make_unanswerable

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_SMALL = "--config={}/albert.json --rounds=1"
_TURNS = "--data={} --config={}/albert.json --max_seq_length=128 --matrix_size=64 --batch_size=2"
_TURNS += " --batches=1 --turns=2 --rows=float32"
_TINY = f"{_SMALL} --batch_size=2 --seq_length=32 --steps=1"
RUNS = {
    "ask": f"{_SMALL} --lengths=48 --starts=1",
    "bound": f"{_TINY} --matrix_size=64",
    "memory": "--config={}/albert.json --batch_size=2 --seq_length=32",
    "packing": f"{_SMALL} --seq_length=64 --batch_size=2 --steps=3",
    "pretraining": (
        "--data={} --folder={}/pretraining --seeds=7 --dev_fraction=0.5 --hidden_size=16 "
        "--pretraining_steps=8 --fine_tuning_steps=1"
    ),
    "serve": f"{_SMALL} --lengths=32 --clients=1,2 --seconds=0.1",
    "xla": _TINY,
}
# In turns with programs that need torch.
RUNS_WITH_PEERS = [
    ("train", _TURNS),
    ("predict", _TURNS),
    ("predict", f"{_TURNS} --programs --rounds=1 --peers=transformers,openvino"),
]


def run(name: str, flags: str, squad_dir) -> tuple[dict[str, list[float]], str]:
    """Returns the numbers of the tables' rows, by the text in the first column, and all output."""
    shutil.copy(squad_dir / "train-v1.1.json", squad_dir / "train-v2.0.json")
    command = [sys.executable, "-m", f"benchmarks.{name}", *flags.split()]
    command = [word.replace("{}", str(squad_dir)).replace("%", " ") for word in command]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    # What is promised for a large model need not hold for a tiny one.
    assert result.returncode in (0, 1) and "Traceback" not in result.stderr, result.stderr
    lines = re.findall(r"^(\S.*?)  +([-+\d].*)$", result.stdout, re.MULTILINE)
    rows = {name: [float(n) for n in re.findall(r"\d+\.?\d*", rest)] for name, rest in lines}
    return rows, result.stdout


@pytest.mark.usefixtures("mpirun")
@pytest.mark.parametrize("name", RUNS)
def test_a_benchmark_prints_its_rows(name, squad_dir):
    rows, output = run(name, RUNS[name], squad_dir)
    assert any(min(row[:2]) > 0 for row in rows.values()), output


@pytest.mark.parametrize(("name", "flags"), RUNS_WITH_PEERS)
def test_programs_take_turns(name, flags, squad_dir, torch):
    rows, output = run(name, flags, squad_dir)
    assert sum(row[0] > 0 for row in rows.values()) > 1, output
    if name == "train":
        apart = re.search(r"losses of the first step: ([\d.e+-]+) apart", output)
        assert apart and float(apart[1]) < 1e-4, output


def test_accuracy_compares_scores(squad_dir, tmp_path, torch):
    import transformers

    for split in ("train", "dev"):
        make_unanswerable(squad_dir / f"{split}-v1.1.json", tmp_path / f"{split}-v2.0.json")
    rows = [f"{n % 2}\t{n}\t{n}\tA bridge .\tA lake {n} .\n" for n in range(16)]
    for split in ("train", "test"):
        (tmp_path / f"msr_paraphrase_{split}.txt").write_text("".join(["Quality\n", *rows]))
    sts = "header\n" + "".join("a\t" * 8 + f"{'b ' * n}b\t{n / 4}\n" for n in range(16))
    (tmp_path / "STS-B").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "STS-B" / f"{split}.tsv").write_text(sts)
    config = transformers.BertConfig.from_json_file(squad_dir / "bert.json")
    config.max_position_embeddings = 384
    transformers.BertModel(config).save_pretrained(tmp_path / "weights")
    shutil.copy(squad_dir / "vocab.txt", tmp_path / "weights")
    flags = f"--weights={tmp_path}/weights --mrpc={tmp_path} --squad={tmp_path} --seeds=1"
    flags += f" --output_dir={tmp_path}/out --precisions=float32 --epochs=1 --glue={tmp_path}"
    flags += " --tasks=mrpc,sts-b,squad%2.0"
    _, output = run("accuracy", flags, squad_dir)
    for task in ("mrpc", "sts-b", "squad 2.0"):
        for program in ("transformers", "adamw_corrected"):
            assert re.search(rf"^{task}, {program}, float32 +-?[\d.]+ \(.*1$", output, re.M), output
