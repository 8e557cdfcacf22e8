"""Fixtures that all tests share: the reference data, and a tiny SQuAD with its tokenizer."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import filelock
import hypothesis
import pytest
import sentencepiece as spm
from absl import flags

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.
from tests.programs.forking import LONGEST, ForkingProcess

# The same examples every time where a failure must come from the change at hand; others find more.
hypothesis.settings.register_profile(
    "tests", deadline=None, derandomize=os.environ.get("CI") == "true"
)
hypothesis.settings.load_profile("tests")

# Whoever runs the tests in the background (`nohup`, `&` in a script) may have these ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def fail_if_skipped_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI nothing may be missing: a skip is a failure there."""
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure in CI: {report.longrepr}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    fail_if_skipped_in_ci((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    fail_if_skipped_in_ci((yield).get_result())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs first: they take longest, and one of them last would leave a core idle."""
    items.sort(key=lambda item: item.path.parent != ROOT / "tests")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names a test after short text only: the bytes of a zip file differ from second to second,
    and workers that collect at different times would not agree on the tests there are."""
    if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 80):
        return argname
    return None


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The folder of reference data."""
    if not SHARED.is_dir():
        pytest.skip(f"the reference data is not at {SHARED}")
    return SHARED


@pytest.fixture
def set_flags(monkeypatch) -> Callable[..., None]:
    """Gives this process the flags of a program, instead of any others, until the test ends."""

    def set_flags(definers: Sequence[Callable[[], None]], *arguments: str) -> None:
        for name, value in vars(flags.FlagValues()).items():
            monkeypatch.setitem(vars(flags.FLAGS), name, value)
        for define in definers:
            define()
        flags.FLAGS(["program", *arguments])

    return set_flags


def make_squad(seed: int, articles: int) -> dict:
    """A SQuAD 1.1 file about nothing: every question asks for the word after one of the text."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghiklmnoprstu", k=rng.randint(2, 8))) for _ in range(200)]
    data = []
    for a in range(articles):
        paragraphs = []
        for p in range(2):
            text = (
                " ".join(rng.choice(words) for _ in range(rng.randint(20, 60))).capitalize() + "."
            )
            places = [i + 1 for i, char in enumerate(text) if char == " "]
            qas = []
            for q in range(3):
                start = rng.choice(places)
                answer = text[start:].split()[0].strip(".")
                before = text[:start].split()[-1]
                qas.append(
                    {
                        "id": f"{seed}-{a}-{p}-{q}",
                        "question": f"What comes after {before}?",
                        "answers": [{"text": answer, "answer_start": start}],
                    }
                )
            paragraphs.append({"context": text, "qas": qas})
        data.append({"title": f"Article {a}", "paragraphs": paragraphs})
    return {"version": "1.1", "data": data}


@pytest.fixture(scope="session")
def squad_dir(tmp_path_factory) -> pathlib.Path:
    """A folder with train-v1.1.json (48 questions), dev-v1.1.json (12), spm.model, vocab.txt with
    as many pieces, albert.json and bert.json."""
    return copy_of_shared(tmp_path_factory, "squad", make_squad_files)


def copy_of_shared(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[pathlib.Path], None]
) -> pathlib.Path:
    """A folder of one's own with what the first of pytest's processes that needs it makes."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"{name}-for-all"
    is_made = shared.with_suffix(".made")
    with filelock.FileLock(f"{shared}.lock"):
        if not is_made.exists():
            shared.mkdir()
            make(shared)
            is_made.touch()
    return shutil.copytree(shared, tmp_path_factory.mktemp(name), dirs_exist_ok=True)


def make_squad_files(folder: pathlib.Path) -> None:
    """Writes the files of `squad_dir` into a folder."""
    for name, seed, articles in (("train", 1, 8), ("dev", 2, 2)):
        content = json.dumps(make_squad(seed, articles))
        (folder / f"{name}-v1.1.json").write_text(content, encoding="utf-8")
    texts = [
        text
        for article in make_squad(1, 8)["data"]
        for paragraph in article["paragraphs"]
        for text in (paragraph["context"], *(q["question"] for q in paragraph["qas"]))
    ]
    (folder / "text.txt").write_text("\n".join(texts).lower(), encoding="utf-8")
    spm.SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / "spm"),
        vocab_size=200,
        model_type="unigram",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    model = spm.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    write_vocabulary(folder / "vocab.txt", texts, model.get_piece_size())
    config = {
        "vocab_size": model.get_piece_size(),
        "embedding_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    }
    (folder / "albert.json").write_text(json.dumps(config), encoding="utf-8")
    del config["embedding_size"]
    (folder / "bert.json").write_text(json.dumps(config), encoding="utf-8")


def write_vocabulary(path: pathlib.Path, texts: Sequence[str], size: int) -> None:
    """Writes a WordPiece vocabulary of letters and, as many as there is room for, words."""
    words = sorted({word for text in texts for word in text.lower().strip(".?").split()})
    letters = sorted(set("".join(words)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?"]
    pieces += [*letters, *(f"##{letter}" for letter in letters), *words]
    path.write_text("\n".join(list(dict.fromkeys(pieces))[:size]), encoding="utf-8")


def squad_command(squad_dir: pathlib.Path, output_dir: pathlib.Path, *flags: str) -> list[str]:
    """The command of a tiny run; later flags win over earlier ones."""
    return [
        sys.executable,
        str(ROOT / "run_squad_v1.py"),
        f"--albert_config_file={squad_dir / 'albert.json'}",
        f"--spm_model_file={squad_dir / 'spm.model'}",
        f"--train_file={squad_dir / 'train-v1.1.json'}",
        f"--predict_file={squad_dir / 'dev-v1.1.json'}",
        f"--output_dir={output_dir}",
        "--max_seq_length=64",
        "--max_query_length=20",
        "--doc_stride=16",
        "--train_batch_size=8",
        "--learning_rate=1e-3",
        "--num_train_epochs=2",
        "--save_checkpoints_steps=5",
        *flags,
    ]


def at_step(fault: str, step: int, command: list[str], rank: int = 0) -> list[str]:
    """A command to which, at a step of its training, something of `tests.programs.at_step` happens
    on one of its workers."""
    python, *program = command
    return [python, str(ROOT / "tests/programs/at_step.py"), fault, str(step), str(rank), *program]


@functools.cache
def _forking_process() -> ForkingProcess:
    return ForkingProcess()


def run(command: list[str], **kwargs) -> subprocess.CompletedProcess:
    """Runs a command to its end and keeps what it prints; our programs in a forked process."""
    python, program, *_ = [*command, ""]
    if python == sys.executable and program.endswith(".py"):
        return _forking_process().run(command[1:], **kwargs)
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, **kwargs)


def run_text(folder: pathlib.Path, text: str, *arguments: str) -> subprocess.CompletedProcess:
    """Runs the text of a program, that imports ours, in a forked process."""
    (folder / "program.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return run([sys.executable, str(folder / "program.py"), *arguments], env=environment)


MPIRUN = pathlib.Path(sys.executable).parent / "mpirun"


def under_mpirun(workers: int, command: list[str], *options: str) -> list[str]:
    """A command as so many workers; on any number of cores, as root or not."""
    placing = ["--oversubscribe", "--bind-to", "none", "--allow-run-as-root", *options]
    return [str(MPIRUN), "-np", str(workers), *placing, *command]


def run_as_workers(
    workers: int, command: list[str], *flags_of_last: str
) -> subprocess.CompletedProcess:
    """Runs a program of ours as so many workers, in forked processes that Horovod's Gloo connects.

    Much faster than under mpirun; how a job starts and how it breaks is tested with that. All of
    them must end by themselves, also if the last is given flags of its own.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_slot_env_vars
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer(verbose=0)
    variables = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.start()),
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
    slots = get_host_assignments(parse_hosts(f"localhost:{workers}"), workers)
    server.init(slots)
    try:
        each = [({**variables, **create_slot_env_vars(slot)}, ()) for slot in slots]
        each[-1] = (each[-1][0], flags_of_last)
        return _forking_process().run(command[1:], workers=each)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def mpirun() -> None:
    """For tests that need Horovod and mpirun."""
    pytest.importorskip("horovod.tensorflow", reason="Horovod is not installed: make horovod")
    if not MPIRUN.exists():
        pytest.skip(f"{MPIRUN} is missing: make horovod")


@pytest.fixture(scope="session")
def trained(squad_dir, tmp_path_factory) -> pathlib.Path:
    """The output folder of a tiny run that trained 12 steps and scored its checkpoints."""

    def make(folder: pathlib.Path) -> None:
        # In a process of its own, as users have it.
        command = squad_command(squad_dir, folder)
        result = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
        assert result.returncode == 0, result.stderr

    return copy_of_shared(tmp_path_factory, "trained", make)


@pytest.fixture(scope="session")
def exported(trained, squad_dir, tmp_path_factory) -> pathlib.Path:
    """The folder of a SavedModel of that run."""

    def make(folder: pathlib.Path) -> None:
        result = run(squad_command(squad_dir, trained, f"--export_dir={folder}"))
        assert result.returncode == 0, result.stderr

    (found,) = copy_of_shared(tmp_path_factory, "exported", make).glob("saved_model/*")
    return found


@pytest.fixture(scope="session")
def random_model(squad_dir, tmp_path_factory) -> Callable[..., str]:
    """Writes models with random weights: of a head, with what its program knew of it."""
    from benchmarks.ask import write_random_weights
    from modeling import read_config
    from runtime.training.assets import Assets, write_assets

    def write(head, **description) -> str:
        folder = tmp_path_factory.mktemp("random")
        config = read_config(str(squad_dir / "albert.json"))
        write_random_weights(str(folder), config, head)
        names = {"config.json": "albert.json", "spm.model": "spm.model"}
        files = {name: str(squad_dir / source) for name, source in names.items()}
        values = {"do_lower_case": True, "max_seq_length": 64, **description}
        (folder / "assets.extra").mkdir()
        write_assets(str(folder / "assets.extra"), Assets(values, files))
        return str(folder)

    return write


def change_header(path: pathlib.Path, old: str, new: str, with_hash: bool) -> None:
    """Changes the text of a header of ours; `with_hash`, or else as earlier versions wrote it."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    if not with_hash:
        header = json.loads(text)
        del header["header_sha256"]
        text = json.dumps(header, indent=2)
    path.write_text(text.replace(old, new), encoding="utf-8")


def defaults_of(program: str) -> dict[str, object]:
    """The flags of a program with their defaults, aliases too; it is imported, and forgotten."""
    before = set(flags.FLAGS)
    try:
        importlib.import_module(program)
        return {name: flags.FLAGS[name].default for name in set(flags.FLAGS) - before}
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        sys.modules.pop(program, None)


CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
CHROMIUM_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1280,900",
]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A real browser, Debian's Chromium, without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not (CHROMIUM and DRIVER):
        pytest.skip("there is no chromium with chromedriver: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*CHROMIUM_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()
