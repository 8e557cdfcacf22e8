"""The house rules that a machine can check: imports run downward, names are re-exported only."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re

import pytest

from tests.helpers.forking import ROOT

# A folder with a task is one.
TASKS = tuple(sorted(path.parent.name for path in ROOT.glob("*/task.py")))
MODEL = (
    "gradients",
    "modeling",
    "modeling_config",
    "modeling_layers",
    "modeling_recompute",
    "optimization",
    "sentencepiece_text",
    "sharded_optimizer",
    "token_rows",
    "wordpiece_text",
    "token_offsets",
    "tokenization",
    "encoder_flags",
    "encoder_task",
    "weights",
    "classification",
    "looking",
)
# The reference's modules, which only name things; the signatures are in `doors/`.
DOORS = ("doors", "lamb_optimizer", *(path.stem for path in ROOT.glob("*_utils.py")))
# What each floor may import of this project; an entry point may import anything.
MAY_IMPORT = {
    "runtime": {"runtime"},
    "model": {"runtime", *MODEL},
    **{task: {"runtime", *MODEL, task} for task in TASKS},
}
# What needs several tasks: above them, below the programs that use it.
MAY_IMPORT["answering"] = {"runtime", *MODEL, *TASKS, "answering"}
MAY_IMPORT["serving"] = {"runtime", "answering", "serving"}
OURS = {
    path.name.removesuffix(".py")
    for path in ROOT.iterdir()
    if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
} | {"tests"}
# Rooms of `runtime/`, and those below them; what is directly in `runtime/` is below all of them.
BELOW = {
    "devices": set(),
    "checkpoints": set(),
    "data": {"devices"},
    "bf16": {"devices", "data"},
    "training": {"devices", "checkpoints", "data", "bf16"},
    "preflight": {"devices", "checkpoints", "data", "bf16", "training"},
}


def imported(path: pathlib.Path) -> set[str]:
    """Top-level names of the modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def floor_of(path: pathlib.Path) -> str | None:
    top = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "model" if top in MODEL else top if top in MAY_IMPORT else None


def sources() -> list[pathlib.Path]:
    above = (*TASKS, "answering", "serving", "doors")
    rooms = ("runtime", "classification", "weights", "looking", *above)
    folders = [ROOT / name for name in rooms]
    return sorted([*ROOT.glob("*.py"), *(p for f in folders for p in f.rglob("*.py"))])


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_downward(path):
    floor = floor_of(path)
    if floor:
        assert imported(path) & OURS <= MAY_IMPORT[floor]
    if floor != "runtime":
        assert not imported(path) & {"horovod", "habana_frameworks"}
    assert not imported(path) & {"torch", "transformers", "six"}


def rooms_imported(path: pathlib.Path) -> set[str]:
    """The rooms of `runtime/` that a file imports; "" for what is in none of them."""
    text = path.read_text(encoding="utf-8")
    modules = re.findall(r"^\s*(?:from|import) runtime(?:\.(\w+))?", text, re.MULTILINE)
    return {module if module in BELOW else "" for module in modules}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "runtime").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_rooms_of_the_runtime(path):
    """Each may use the rooms below it; what is in no room uses none."""
    room = path.parent.name if path.parent.name != "runtime" else None
    allowed = BELOW[room] | {room} if room else set()
    assert rooms_imported(path) - {""} <= allowed


def test_every_room_is_known():
    rooms = {path.parent.name for path in (ROOT / "runtime").glob("*/*.py")}
    assert rooms == BELOW.keys()


def test_flags_are_read_where_a_program_starts():
    """And where they are defined; below, values are passed."""
    reading = {p.relative_to(ROOT) for p in sources() if re.search(r"\bFLAGS\b", p.read_text())}
    starts = {p.relative_to(ROOT) for p in ROOT.glob("*.py") if "__main__" in p.read_text()}
    assert reading - starts == {pathlib.Path("runtime/flags.py")}


def test_functions_are_short_enough_to_see_whole():
    """60 lines at most, docstring, comments and empty lines not counted."""
    long = {
        f"{path.name}:{node.name}": lines
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and (lines := lines_of_code(node)) > 60
    }
    assert not long


def lines_of_code(function: ast.FunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return len({line for node in body for line in range(node.lineno, node.end_lineno + 1)})


def test_estimators_come_from_one_module():
    """`tf.estimator` is there up to TensorFlow 2.15 only."""
    pattern = re.compile(r"\btf2?\.estimator\b|tensorflow_estimator")
    assert [p.name for p in sources() if pattern.search(p.read_text())] == ["estimators.py"]


@pytest.mark.parametrize(
    "path", [p for p in sorted(ROOT.glob("*.py")) if "__main__" in p.read_text()], ids=str
)
def test_programs_import_runtime_before_what_imports_tensorflow(path):
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    names = [
        node.names[0].name if isinstance(node, ast.Import) else node.module
        for node in statements
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert "runtime" in names
    before = {name.split(".")[0] for name in names[: names.index("runtime")]}
    assert not before & {"tensorflow", *OURS}


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_below_imports_the_references_modules(path):
    if path.relative_to(ROOT).parts[0].removesuffix(".py") not in DOORS:
        assert not imported(path) & {*DOORS}


@pytest.mark.parametrize("name", sorted({*DOORS} - {"doors", "fine_tuning_utils"}))
def test_reference_modules_only_name_things(name):
    tree = ast.parse((ROOT / f"{name}.py").read_text(encoding="utf-8"))
    kinds = {type(node) for node in tree.body[1:]}
    assert kinds <= {ast.ImportFrom, ast.Assign}


def test_doors_hold_nothing_but_names_of_the_reference():
    """What anyone else would call is the core's."""
    public = {
        node.name
        for path in (ROOT / "doors").glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    } - {"input_fn_of", "model_fn_of", "refuse"}
    named = {name for door in DOORS if door.endswith("_utils") for name in names_of(door)}
    assert public and public <= named


def names_of(door: str) -> list[str]:
    return getattr(importlib.import_module(door), "__all__", [])


@pytest.mark.parametrize("task", TASKS)
def test_arguments_that_only_the_reference_has_stay_in_the_doors(task):
    unused = {"ex_index", "hub_module", "task_name", "use_tpu"}
    found = {
        f"{path.name}: {argument.arg}"
        for path in (ROOT / task).glob("*.py")
        for argument in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(argument, ast.arg) and argument.arg in unused
    }
    assert not found


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_docstrings_begin_with_a_verb(path):
    """Those of public functions: with none of the words that a noun or a question begins with."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    kinds = ast.FunctionDef | ast.ClassDef | ast.Module
    texts = {node: ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)}
    no_verb = re.compile(r"(An?|The|This|What|Whether|Where|Why|How|Of)\b")
    public = [n for n in texts if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
    assert not [node.name for node in public if no_verb.match(texts[node])]
    assert not [text for text in texts.values() if re.search(r"\bso\s+many\b", text)]


def test_modules_stay_readable():
    """Past some 500 lines a module is two."""
    long = {p.name: n for p in sources() if (n := len(p.read_text().splitlines())) > 550}
    assert not long
