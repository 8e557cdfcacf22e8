"""The published model sizes and the flag files."""

import json
import pathlib
import re

import pytest

from albert.distributed.collectives import simulated_workers
from albert.modeling import AlbertConfig, EncoderConfig, read_config
from albert.tasks.glue.tasks import PROCESSORS
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from albert.tasks.squad.settings import SquadV1Settings, SquadV2Settings
from albert.tasks.squad.task import SquadV1Task, SquadV2Task
from albert.training.plan import training_plan
from tests.helpers.files import defaults_of, flags_in, settings_of
from tests.helpers.forking import ROOT
from tests.helpers.running import albert, run, succeed
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


# The expected flag files, by hand from the Habana README, Google's README and its run_glue.sh, the
# paper's table 14, and Determined AI's examples. Pretraining is from the ALBERT paper and NVIDIA's
# scripts for BERT with LAMB. WNLI is not in run_glue.sh.
LENGTHS = "max_seq_length=384 doc_stride=128 max_query_length=64"
SQUAD = f"{LENGTHS} num_train_epochs=2 warmup_proportion=0.1 save_checkpoints_steps=5000"
XXLARGE = (
    f"{LENGTHS} train_batch_size=2 adam_epsilon=1e-08 weight_decay=0 num_train_epochs=2 "
    "null_score_diff_threshold=0"
)
BERT = (
    f"{LENGTHS} optimizer=adamw learning_rate=5e-05 num_train_epochs=2 warmup_proportion=0 "
    "lr_schedule=constant"
)
PAPER = f"{LENGTHS} train_batch_size=48"
MRPC = (
    "task_name=MRPC max_seq_length=128 optimizer=adamw adam_epsilon=1e-08 weight_decay=0 "
    "train_batch_size=24 learning_rate=2e-5 warmup_step=0"
)
LAMB = "optimizer=lamb do_eval evaluate_while_training"
PHASES = (
    "max_seq_length=128 max_predictions_per_seq=20 global_batch_size=65536 learning_rate=6e-3 "
    "num_train_steps=7038 num_warmup_steps=2000",
    "max_seq_length=512 max_predictions_per_seq=80 global_batch_size=32768 learning_rate=4e-3 "
    "num_train_steps=1563 num_warmup_steps=200",
)
TEXTS = {
    "squad_v1.1": f"{SQUAD} train_batch_size=32 learning_rate=3e-05",
    "squad_v1.1_google": f"{SQUAD} train_batch_size=48 learning_rate=5e-05",
    "squad_v2.0_google": f"{SQUAD} train_batch_size=48 learning_rate=5e-05",
    "squad_v1.1_paper": f"{PAPER} learning_rate=5e-05 train_steps=3649 warmup_proportion=0.1001",
    "squad_v2.0_paper": f"{PAPER} learning_rate=3e-05 train_steps=8144 warmup_proportion=0.1 "
    "dropout_prob=0.1 max_seq_length=512",
    "squad_v1.1_bert_8": f"{BERT} train_batch_size=32",
    "squad_v1.1_bert_8_bf16": f"{BERT} train_batch_size=64 precision=bfloat16",
    "squad_v1.1_bert_8_float16": f"{BERT} train_batch_size=64 precision=float16",
    "glue_mrpc_bert_1": f"{MRPC} train_step=459 save_checkpoints_steps=100",
    "glue_mrpc_bert_8": f"{MRPC} train_step=57 save_checkpoints_steps=20",
}
for cards, accumulation, rate, warmup, more in (
    (1, 24, "5e-05", "0.1", ""),
    (8, 3, "5e-05", "0.0982", ""),
    (64, 2, "2e-04", "0.0998", "optimizer=radam"),
):
    TEXTS[f"squad_v2.0_xxlarge_{cards}"] = (
        f"{XXLARGE} gradient_accumulation_steps={accumulation} learning_rate={rate} "
        f"warmup_proportion={warmup} {more}"
    )
for task, warmup, rate, steps, every, batch in (
    ("CoLA", 320, "1e-5", 5336, 100, 16),
    ("MNLI", 1000, "3e-5", 10000, 100, 128),
    ("MRPC", 200, "2e-5", 800, 100, 32),
    ("QNLI", 1986, "1e-5", 33112, 200, 32),
    ("QQP", 1000, "5e-5", 14000, 100, 128),
    ("RTE", 200, "3e-5", 800, 100, 32),
    ("SST-2", 1256, "1e-5", 20935, 100, 32),
    ("STS-B", 214, "2e-5", 3598, 100, 16),
    ("WNLI", 200, "3e-5", 800, 100, 32),
):
    TEXTS[f"glue_{task.lower()}"] = (
        f"max_seq_length=512 optimizer=adamw task_name={task} train_batch_size={batch} "
        f"learning_rate={rate} train_step={steps} warmup_step={warmup} "
        f"save_checkpoints_steps={every}"
    )
for size, batch in (("base", 32), ("large", 8), ("xlarge", 8), ("xxlarge", 4)):
    TEXTS[f"pretrain_albert_{size}"] = (
        f"{LAMB} albert_config_file=configs/albert_{size}_v1.json train_batch_size={batch} "
        "learning_rate=0.00176 global_batch_size=4096 num_train_steps=125000 "
        "num_warmup_steps=3125 max_seq_length=512 max_predictions_per_seq=77"
    )
for size, batches in (("base", (64, 16)), ("large", (32, 8))):
    name = f"pretrain_bert_{size}"
    phases = [f"configs/{name}_phase_{number}.flags" for number in (1, 2)]
    model = f"albert_config_file=configs/bert_{size}_uncased.json"
    TEXTS[name] = f"{LAMB} {model} phases={','.join(phases)} poly_power=0.5"
    for number, (phase, batch) in enumerate(zip(PHASES, batches, strict=True), start=1):
        TEXTS[f"{name}_phase_{number}"] = f"{phase} train_batch_size={batch}"
FLAG_FILES = {name: flags_in(text) for name, text in TEXTS.items()}


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


# By preset: the workers it is for, and the steps and warm-up steps for the number of questions in
# the published training set.
QUESTIONS = {"1.1": 87_599, "2.0": 130_319}
STEPS = {
    "squad_v1.1": (1, 5474, 547),
    "squad_v1.1_bert_8": (8, 684, 0),
    "squad_v1.1_bert_8_bf16": (8, 342, 0),
    "squad_v1.1_bert_8_float16": (8, 342, 0),
    "squad_v1.1_google": (1, 3649, 364),
    "squad_v1.1_paper": (1, 3649, 365),
    "squad_v2.0_google": (1, 5429, 542),
    "squad_v2.0_paper": (1, 8144, 814),
    "squad_v2.0_xxlarge_1": (1, 5429, 542),
    "squad_v2.0_xxlarge_8": (8, 5429, 533),
    "squad_v2.0_xxlarge_64": (64, 1018, 101),
}


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
        assert list(task.steps(QUESTIONS[name.split("_")[1][1:]])) == expected


# By preset and phase: the steps, the warm-up steps and the global batch, for any number of workers.
PRETRAININGS = {
    name: [
        tuple(int(flags[n]) for n in ("num_train_steps", "num_warmup_steps", "global_batch_size"))
        for part, flags in FLAG_FILES.items()
        if part.startswith(name) and "num_train_steps" in flags
    ]
    for name in FLAG_FILES
    if name.startswith("pretrain") and "phase" not in name
}


@pytest.mark.parametrize("workers", [1, 8, 64])
@pytest.mark.parametrize("name", PRETRAININGS)
def test_pretrainings_have_their_batches_on_any_cards(name, workers, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    flags = f"--flagfile=configs/{name}.flags", f"--output_dir={tmp_path}", "--input_file=records"
    plans = []
    with simulated_workers(workers):
        for settings in settings_of(PretrainingSettings, *flags).runs().values():
            task = PretrainingTask(settings)
            plan = training_plan(task.settings, task.steps(10**6)[0])
            plans.append((*task.steps(10**6), plan.global_batch_size))
            assert task.config.max_position_embeddings >= settings.max_seq_length
    assert plans == PRETRAININGS[name]


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


@pytest.mark.slow
@pytest.mark.parametrize("name", PRETRAININGS)
def test_pretrainings_pass_the_check_and_fit_cards_of_32_gb(name, records, tmp_path, monkeypatch):
    """In their full size, for one card and 64; both phases, if there are two."""
    monkeypatch.chdir(ROOT)
    model, out = name.split("_")[1], tmp_path / "out"
    job = [f"--flagfile=configs/{name}.flags", f"--output_dir={out}"]
    # The disk of the tests may be too small for more of them.
    job += ["--save_checkpoints_steps=50000"]
    job += [f"--{part}_file={records}/{model}-{{max_seq_length}}" for part in ("input", "eval")]
    if model == "albert":
        job = [flag.format(max_seq_length=512) for flag in job]
    cards = "--device_memory=32GB", "--estimate", "--workers=64", "--examples_per_second=50"
    result = run([*albert("check"), "pretrain", *job, *cards])
    assert result.returncode == 0, result.stdout
    for steps, warmup, batch in PRETRAININGS[name]:
        plan = rf"steps +{steps}, {warmup} of them warmup, {batch} examples each\n"
        assert re.search(plan, result.stdout), result.stdout
        assert f": {steps} steps of {batch} examples, " in result.stdout, result.stdout
    assert (f"the last one of {out}/phase_1" in result.stdout) == (model == "bert")
    assert not out.exists()
