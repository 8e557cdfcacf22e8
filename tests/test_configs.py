"""The published model sizes and the flag files."""

import configparser
import json
import pathlib
import re

import pytest

from albert.modeling import AlbertConfig, EncoderConfig, read_config
from albert.tasks.glue.tasks import PROCESSORS
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from albert.tasks.squad.settings import SquadV1Settings, SquadV2Settings
from albert.tasks.squad.task import SquadV1Task, SquadV2Task
from albert.training.plan import Steps, global_batch_size
from tests.helpers.files import defaults_of, flags_in, settings_of
from tests.helpers.forking import ROOT
from tests.helpers.running import albert, run, simulated_workers, succeed
from tests.helpers.squad import squad_command, write_vocabulary

# Millions of parameters, table 1 of https://arxiv.org/abs/1909.11942.
PUBLISHED = {"base": 12, "large": 18, "xlarge": 60, "xxlarge": 235}


def config_of(name: str) -> str:
    return str(ROOT / "configs" / f"{name}.json")


def parameters(config: EncoderConfig) -> int:
    e, h, i = config.embedding_size, config.hidden_size, config.intermediate_size
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    block = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 2 * 2 * h
    mapping = e * h + h if e != h else 0
    return rows * e + 2 * e + mapping + config.num_hidden_groups * block + (h * h + h)


# The same for BERT: section 3 of https://arxiv.org/abs/1810.04805, table 1 of
# https://arxiv.org/abs/1908.08962, and for the others the sizes in `transformers`.
PUBLISHED_BERT = flags_in("""
    base_uncased=110 base_cased=108 large_uncased=340 large_cased=335 base_chinese=103
    base_multilingual_cased=179 base_multilingual_uncased=168 uncased_L-2_H-128_A-2=4.4
    uncased_L-4_H-256_A-4=11.3 uncased_L-4_H-512_A-8=29.1 uncased_L-8_H-512_A-8=41.7
""")


def test_sizes_are_the_published_ones():
    for size, millions in PUBLISHED.items():
        for version in ("v1", "v2"):
            config = AlbertConfig.from_json_file(config_of(f"albert_{size}_{version}"))
            assert parameters(config) / 1e6 == pytest.approx(millions, rel=0.06), size
            has_dropout = version == "v1" and size != "xxlarge"
            assert (config.hidden_dropout_prob > 0) == has_dropout
    for name, millions in PUBLISHED_BERT.items():
        config = read_config(config_of(f"bert_{name}"))
        assert parameters(config) / 1e6 == pytest.approx(float(millions), rel=0.02), name
        assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.1


def test_the_24_small_berts_have_the_sizes_in_their_names():
    all_sizes = set()
    for path in (ROOT / "configs").glob("bert_uncased_*.json"):
        config = read_config(str(path))
        sizes = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
        assert path.stem == "bert_uncased_L-{}_H-{}_A-{}".format(*sizes)
        assert config.hidden_size == 64 * config.num_attention_heads
        assert config.intermediate_size == 4 * config.hidden_size
        assert config.vocab_size == 30522
        all_sizes.add(sizes[:2])
    assert all_sizes == {(n, h) for n in (2, 4, 6, 8, 10, 12) for h in (128, 256, 512, 768)}


GOLDEN = configparser.ConfigParser(interpolation=configparser.ExtendedInterpolation())
GOLDEN.read(ROOT / "tests/golden/presets.ini", encoding="utf-8")
FLAG_FILES = {name: flags_in(text) for name, text in GOLDEN["presets"].items()}


def test_flag_files_have_the_references_values():
    files = {}
    for path in (ROOT / "configs").glob("*.flags"):
        lines = path.read_text(encoding="utf-8").splitlines()
        words = [line.removeprefix("--") for line in lines if not line.startswith("#")]
        files[path.stem] = flags_in(" ".join(words))
    assert files == FLAG_FILES
    assert STEPS.keys() == {name for name in files if name.startswith("squad")}
    known = defaults_of("run_classifier").keys()
    for flags in (flags for name, flags in files.items() if name.startswith("glue_")):
        assert flags.keys() <= known and flags["task_name"].lower() in PROCESSORS


# In the published training sets.
QUESTIONS = {"1.1": 87_599, "2.0": 130_319}
STEPS = {name: [*map(int, text.split())] for name, text in GOLDEN["steps"].items()}


def squad_job(name: str, squad_dir: pathlib.Path, folder: pathlib.Path) -> list[str]:
    size = "xxlarge" if "xxlarge" in name or "paper" in name else "base"
    model = "bert_base_uncased" if "bert" in name else f"albert_{size}_v2"
    config = json.loads(pathlib.Path(config_of(model)).read_text())
    config["vocab_size"] = json.loads((squad_dir / "albert.json").read_text())["vocab_size"]
    (folder / "albert.json").write_text(json.dumps(config))
    python, program, *flags = squad_command(squad_dir, folder / "out")
    files = [flag for flag in flags if "_file=" in flag and "config" not in flag]
    files += [f"--albert_config_file={folder / 'albert.json'}", f"--output_dir={folder / 'out'}"]
    program = program.replace("_v1", f"_v{name.split('_')[1][1]}")
    return [python, program, f"--flagfile={ROOT / 'configs' / name}.flags", *files]


@pytest.mark.parametrize(
    ("name", "memory", "examples"),
    [("squad_v1.1", "32GB", 32), ("squad_v2.0_xxlarge_64", "32GB", 4)],
)
@pytest.mark.slow
def test_presets_of_squad_fit_their_cards(name, memory, examples, squad_dir, tmp_path):
    """The largest steps of their kinds, with the memory that float32 needs."""
    python, *job = squad_job(name, squad_dir, tmp_path)
    checked = [f"--device_memory={memory}", "--json", "--train_steps=20"]
    result = run([*albert("check"), *job, *checked])
    assert result.returncode == 0, result.stdout
    (rows,) = json.loads(result.stdout)["ranks"]
    (steps,) = (row["value"] for row in rows if row["item"] == "steps")
    assert steps.endswith(f" {examples} examples each")


@pytest.mark.parametrize("name", STEPS)
def test_presets_have_the_published_numbers_of_steps(name, squad_dir, tmp_path):
    _, program, *job = squad_job(name, squad_dir, tmp_path)
    is_v2 = program.endswith("v2.py")
    settings = settings_of(SquadV2Settings if is_v2 else SquadV1Settings, *job)
    workers, *expected = STEPS[name]
    with simulated_workers(workers):
        task = (SquadV2Task if is_v2 else SquadV1Task)(settings)
        assert task.steps(QUESTIONS[name.split("_")[1][1:]]) == Steps(*expected)


# By preset: the steps, the warm-up steps and the global batch, for any number of workers.
PRETRAININGS = {
    name: tuple(int(flags[n]) for n in ("num_train_steps", "num_warmup_steps", "global_batch_size"))
    for name, flags in FLAG_FILES.items()
    if name.startswith("pretrain")
}


@pytest.mark.parametrize("workers", [1, 8, 64])
@pytest.mark.parametrize("name", PRETRAININGS)
def test_pretrainings_have_their_batches_on_any_cards(name, workers, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    flags = f"--flagfile=configs/{name}.flags", f"--output_dir={tmp_path}", "--input_file=records"
    with simulated_workers(workers):
        task = PretrainingTask(settings_of(PretrainingSettings, *flags))
        plan = *task.steps(10**6)[:2], global_batch_size(task.settings)
    assert task.config.max_position_embeddings >= task.settings.max_seq_length
    assert plan == PRETRAININGS[name]


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("records")
    (folder / "text").write_text("a b c d\nc d a b\n\nd a b c\nb c d a\n\n" * 20)
    write_vocabulary(folder / "vocab.txt", ["a b c d"], 30)
    files = f"--input_file={folder}/text", f"--vocab_file={folder}/vocab.txt"
    for model, length, predictions in (("bert", 128, 20), ("bert", 512, 80), ("albert", 512, 77)):
        sizes = f"--max_seq_length={length}", f"--max_predictions_per_seq={predictions}"
        made = f"--output_file={folder}/{model}-{length}"
        succeed([*albert("pretraining-data"), *files, *sizes, made])
    return folder


# The others need less: albert_large has the batch of albert_xlarge, and bert_base twice that of
# bert_large.
@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    ["albert_base", "albert_xlarge", "albert_xxlarge", "bert_large_phase_1", "bert_large_phase_2"],
)
def test_pretrainings_pass_the_check_and_fit_cards_of_32_gb(part, records, tmp_path, monkeypatch):
    """In their full size."""
    monkeypatch.chdir(ROOT)
    name, out = f"pretrain_{part}", tmp_path / "out"
    job = [f"--flagfile=configs/{name}.flags", f"--output_dir={out}"]
    # The disk of the tests may be too small for more of them.
    job += ["--save_checkpoints_steps=50000"]
    file = f"{part.split('_')[0]}-{FLAG_FILES[name]['max_seq_length']}"
    job += [f"--{flag}_file={records}/{file}" for flag in ("input", "eval")]
    result = run([*albert("check"), "pretrain", *job, "--device_memory=32GB"])
    assert result.returncode == 0, result.stdout
    steps, warmup, batch = PRETRAININGS[name]
    plan = rf"steps +{steps}, {warmup} of them warmup, {batch} examples each\n"
    assert re.search(plan, result.stdout), result.stdout
    assert not out.exists()
