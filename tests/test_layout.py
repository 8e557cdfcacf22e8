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


class Source:
    """A file of the product, parsed."""

    def __init__(self, path: pathlib.Path):
        self.path, self.name = path, str(path.relative_to(ROOT))
        self.top = path.relative_to(ROOT).parts[0].removesuffix(".py")
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))
        self.functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef)]
        self.modules = imported(self.tree)
        self.tops = {name.split(".")[0] for name in self.modules}
        self.is_program = path.parent == ROOT and "__main__" in self.text


@functools.cache
def sources() -> list[Source]:
    above = (*TASKS, "answering", "serving", "doors")
    rooms = ("runtime", "classification", "weights", "looking", *above)
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    return [Source(path) for path in sorted([*ROOT.glob("*.py"), *files])]


def test_imports_run_downward():
    wrong = {}
    for source in sources():
        floor = "model" if source.top in MODEL else source.top
        foreign = {"torch", "transformers", "six"}
        foreign |= set() if floor == "runtime" else {"horovod", "habana_frameworks"}
        wrong[source.name] = source.tops & (foreign | OURS - MAY_IMPORT.get(floor, OURS))
    assert {name: tops for name, tops in wrong.items() if tops} == {}


def test_rooms_of_the_runtime():
    """Each may use the rooms below it; what is in no room uses none."""
    wrong, found = {}, set()
    for source in sources():
        if source.top == "runtime":
            room = source.path.parent.name
            found |= {room} - {"runtime"}
            used = {name.split(".")[1] for name in source.modules if name.startswith("runtime.")}
            wrong[source.name] = used & BELOW.keys() - BELOW.get(room, set()) - {room}
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}
    assert found == BELOW.keys()


def test_flags_are_read_where_a_program_starts():
    """And where they are defined; below, values are passed."""
    reading = [s.name for s in sources() if re.search(r"\bFLAGS\b", s.text) and not s.is_program]
    assert reading == ["runtime/flags.py"]


def test_functions_and_modules_are_short_enough_to_read():
    """60 lines at most, docstring, comments and empty lines not counted; past 550 lines a module
    is two."""
    long = [source.name for source in sources() if len(source.text.splitlines()) > 550]
    for source in sources():
        for node in source.functions:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = {line for part in body for line in range(part.lineno, part.end_lineno + 1)}
            long += [f"{source.name}: {node.name}"] if len(lines) > 60 else []
    assert long == []


def test_estimators_come_from_one_module():
    """`tf.estimator` is there up to TensorFlow 2.15 only."""
    pattern = re.compile(r"\btf2?\.estimator\b|tensorflow_estimator")
    assert [s.name for s in sources() if pattern.search(s.text)] == ["runtime/estimators.py"]


def test_programs_import_runtime_before_what_imports_tensorflow():
    for source in sources():
        if source.is_program:
            kinds = ast.Import | ast.ImportFrom
            nodes = [node for node in source.tree.body if isinstance(node, kinds)]
            names = [getattr(node, "module", None) or node.names[0].name for node in nodes]
            assert "runtime" in names, source.name
            before = {name.split(".")[0] for name in names[: names.index("runtime")]}
            assert not before & {"tensorflow", *OURS}, source.name


def test_the_references_modules_only_name_things():
    """And nothing below imports them; what anyone else would call is the core's."""
    below = [source for source in sources() if source.top not in DOORS]
    assert [source.name for source in below if source.tops & {*DOORS}] == []
    named, public = set(), set()
    for source in sources():
        body = source.tree.body[1:]
        if source.top == "doors":
            kinds = ast.FunctionDef | ast.ClassDef
            public |= {node.name for node in body if isinstance(node, kinds)}
        elif source.top in DOORS and source.top != "fine_tuning_utils":
            assert {type(node) for node in body} <= {ast.ImportFrom, ast.Assign}, source.name
            named |= {*ast.literal_eval(body[-1].value)}
    public = {name for name in public if name[0] != "_"} - {"input_fn_of", "model_fn_of", "refuse"}
    assert public and public <= named


def test_docstrings_begin_with_a_verb():
    """Those of public functions: with none of the words that a noun or a question begins with."""
    no_verb = re.compile(r"(An?|The|This|What|Whether|Where|Why|How|Of)\b")
    wrong, kinds = [], ast.FunctionDef | ast.ClassDef | ast.Module
    for source in sources():
        texts = {n: ast.get_docstring(n) or "" for n in source.nodes if isinstance(n, kinds)}
        public = [node for node in source.functions if node.name[0] != "_"]
        wrong += [f"{source.name}: {n.name}" for n in public if no_verb.match(texts[n])]
        wrong += [source.name for text in texts.values() if re.search(r"\bso\s+many\b", text)]
    assert wrong == []


def test_no_test_module_is_imported():
    """What two of them need is in `tests/helpers/`."""
    pattern = re.compile(r"^\s*(?:from|import) tests\b.*\b(?:test_\w+|conftest)\b", re.MULTILINE)
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert [str(path) for path in files if pattern.search(path.read_text(encoding="utf-8"))] == []
