"""The house rules that a machine can check; each test lists all that break one."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

from tests.helpers.forking import ROOT
from tests.near import imported

# A folder with a task is one.
TASKS = tuple(sorted(path.parent.name for path in ROOT.glob("*/task.py")))
MODEL = (
    *("gradients", "modeling", "modeling_config", "modeling_layers", "modeling_recompute"),
    *("optimization", "sharded_optimizer", "token_rows", "token_offsets", "tokenization"),
    *("sentencepiece_text", "wordpiece_text", "encoder_flags", "encoder_task"),
    *("weights", "classification", "looking"),
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
BELOW = {"devices": set(), "checkpoints": set(), "data": {"devices"}, "bf16": {"devices", "data"}}
BELOW["training"] = {*BELOW}
BELOW["preflight"] = {*BELOW}


def sources() -> list[pathlib.Path]:
    above = (*TASKS, "answering", "serving", "doors")
    rooms = ("runtime", "classification", "weights", "looking", *above)
    folders = [ROOT / name for name in rooms]
    return sorted([*ROOT.glob("*.py"), *(p for f in folders for p in f.rglob("*.py"))])


@functools.cache
def text_of(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def tree_of(path: pathlib.Path) -> ast.Module:
    return ast.parse(text_of(path))


@functools.cache
def modules_of(path: pathlib.Path) -> set[str]:
    """Full names of what a file imports."""
    return imported(tree_of(path))


def tops_of(path: pathlib.Path) -> set[str]:
    return {name.split(".")[0] for name in modules_of(path)}


def name_of(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def functions_of(path: pathlib.Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)]


PROGRAMS = [path for path in sorted(ROOT.glob("*.py")) if "__main__" in text_of(path)]


def floor_of(path: pathlib.Path) -> str | None:
    top = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "model" if top in MODEL else top if top in MAY_IMPORT else None


def test_imports_run_downward():
    wrong = {}
    for path in sources():
        floor, tops = floor_of(path), tops_of(path)
        above = tops & OURS - MAY_IMPORT[floor] if floor else set()
        foreign = {"torch", "transformers", "six"}
        foreign |= set() if floor == "runtime" else {"horovod", "habana_frameworks"}
        wrong[name_of(path)] = above | tops & foreign
    assert {name: tops for name, tops in wrong.items() if tops} == {}


def test_rooms_of_the_runtime():
    """Each may use the rooms below it; what is in no room uses none."""
    wrong, found = {}, set()
    for path in (ROOT / "runtime").rglob("*.py"):
        room = path.parent.name
        found |= {room} - {"runtime"}
        allowed = {room} | BELOW.get(room, set())
        parts = [name.split(".")[1] for name in modules_of(path) if name.startswith("runtime.")]
        wrong[name_of(path)] = BELOW.keys() & set(parts) - allowed
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}
    assert found == BELOW.keys()


def test_flags_are_read_where_a_program_starts():
    """And where they are defined; below, values are passed."""
    reading = {path for path in sources() if re.search(r"\bFLAGS\b", text_of(path))}
    assert reading - {*PROGRAMS} == {ROOT / "runtime/flags.py"}


def test_functions_and_modules_are_short_enough_to_read():
    """60 lines at most, docstring, comments and empty lines not counted; past 550 lines a module
    is two."""
    long = [name_of(path) for path in sources() if len(text_of(path).splitlines()) > 550]
    for path in sources():
        for node in functions_of(path):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = {line for part in body for line in range(part.lineno, part.end_lineno + 1)}
            long += [f"{name_of(path)}: {node.name}"] if len(lines) > 60 else []
    assert long == []


def test_estimators_come_from_one_module():
    """`tf.estimator` is there up to TensorFlow 2.15 only."""
    pattern = re.compile(r"\btf2?\.estimator\b|tensorflow_estimator")
    assert [p.name for p in sources() if pattern.search(text_of(p))] == ["estimators.py"]


def test_programs_import_runtime_before_what_imports_tensorflow():
    for path in PROGRAMS:
        names = [
            node.names[0].name if isinstance(node, ast.Import) else node.module
            for node in tree_of(path).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert "runtime" in names, path
        before = {name.split(".")[0] for name in names[: names.index("runtime")]}
        assert not before & {"tensorflow", *OURS}, path


def test_the_references_modules_only_name_things():
    """And nothing below imports them; what anyone else would call is the core's."""
    below = [p for p in sources() if p.relative_to(ROOT).parts[0].removesuffix(".py") not in DOORS]
    assert [name_of(path) for path in below if tops_of(path) & {*DOORS}] == []
    named = set()
    for door in {*DOORS} - {"doors", "fine_tuning_utils"}:
        body = tree_of(ROOT / f"{door}.py").body[1:]
        assert {type(node) for node in body} <= {ast.ImportFrom, ast.Assign}, door
        if isinstance(body[-1], ast.Assign):
            named |= {*ast.literal_eval(body[-1].value)}
    public = {
        node.name
        for path in (ROOT / "doors").glob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    } - {"input_fn_of", "model_fn_of", "refuse"}
    assert public and public <= named


def test_arguments_that_only_the_reference_has_stay_in_the_doors():
    unused = {"ex_index", "hub_module", "task_name", "use_tpu"}
    found = [
        f"{name_of(path)}: {argument.arg}"
        for path in sources()
        if path.parent.name in TASKS
        for argument in ast.walk(tree_of(path))
        if isinstance(argument, ast.arg) and argument.arg in unused
    ]
    assert found == []


def test_docstrings_begin_with_a_verb():
    """Those of public functions: with none of the words that a noun or a question begins with."""
    no_verb = re.compile(r"(An?|The|This|What|Whether|Where|Why|How|Of)\b")
    wrong = [
        f"{name_of(path)}: {node.name}"
        for path in sources()
        for node in functions_of(path)
        if node.name[0] != "_" and no_verb.match(ast.get_docstring(node) or "")
    ]
    kinds = ast.FunctionDef | ast.ClassDef | ast.Module
    wrong += [
        f"{name_of(path)}: so many"
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, kinds) and re.search(r"\bso\s+many\b", ast.get_docstring(node) or "")
    ]
    assert wrong == []


def test_no_test_module_is_imported():
    """What two of them need is in `tests/helpers/`."""
    pattern = re.compile(r"^\s*(?:from|import) tests\b.*\b(?:test_\w+|conftest)\b", re.MULTILINE)
    modules = sorted((ROOT / "tests").rglob("*.py"))
    assert [name_of(path) for path in modules if pattern.search(text_of(path))] == []
