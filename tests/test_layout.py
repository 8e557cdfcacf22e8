"""The house rules that a machine can check; each test lists all that break one."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

from tests.helpers.forking import ROOT
from tests.near import imported

# Rooms from the ground up: each may import those on lower floors. A room is a folder of the
# package, the folder of a task, or a module that is in no folder.
FLOORS = (
    ("core",),
    ("bf16", "distributed", "download", "settings", "tokenizers"),
    ("checkpoints", "devices", "report", "tokenization"),
    ("data", "model", "optimizers"),
    ("modeling", "optimization"),
    ("training",),
    ("convert", "preflight", "tasks.classification"),
    ("tasks.glue", "tasks.pretraining", "tasks.race", "tasks.squad"),
    ("inference", "reference_api"),
    (
        "serving",
        "classifier_utils",
        "fine_tuning_utils",
        "lamb_optimizer",
        "race_utils",
        "squad_utils",
    ),
    ("cli", "demo"),
    (
        "create_pretraining_data",
        "run_squad_v1",
        "run_squad_v2",
        "run_classifier",
        "run_race",
        "run_pretraining",
    ),
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
NAMES_ONLY = {name for name in FLOORS[9] if name != "serving"}


def room_of(module: str) -> str:
    """Returns the room of a module of the package, "" of the package itself and of `tasks`."""
    parts = module.split(".")[1:]
    return (
        ".".join(parts[:2]) if parts[:1] == ["tasks"] and parts[1:] else parts[0] if parts else ""
    )


class Source:
    """A file of the product, parsed."""

    def __init__(self, path: pathlib.Path):
        self.path, self.name = path, str(path.relative_to(ROOT))
        self.module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        self.room = room_of(self.module.removesuffix(".__init__"))
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))
        self.functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef)]
        self.modules = imported(self.tree)
        self.tops = {name.split(".")[0] for name in self.modules}
        self.is_program = 'if __name__ == "__main__"' in self.text


@functools.cache
def sources() -> list[Source]:
    return [Source(path) for path in sorted((ROOT / "albert").rglob("*.py"))]


def test_imports_run_downward():
    """And nothing imports a name of the root, or what only tests have."""
    roots = {path.stem for path in ROOT.glob("*.py")} | {"tests", "benchmarks"}
    wrong = {}
    for source in sources():
        # "albert.tasks.squad.v1.SquadV1Task" is of the room that its longest prefix names.
        used = {room_of(name) for name in source.modules if name.startswith("albert.")}
        used = {room for room in used if room in FLOOR_OF} - {source.room}
        above = {room for room in used if FLOOR_OF[room] >= FLOOR_OF.get(source.room, -1)}
        wrong[source.name] = above | source.tops & (roots | {"torch", "transformers", "six"})
    assert {name: found for name, found in wrong.items() if found} == {}
    assert {source.room for source in sources()} - {"", "tasks"} == FLOOR_OF.keys()


def test_drivers_of_cards_and_workers_have_one_module_each():
    for package in ("horovod", "habana_frameworks"):
        assert len([s.name for s in sources() if package in s.tops]) == 1


def test_flags_are_read_where_a_program_starts():
    """And where they are defined; below, values are passed."""
    reading = [s.name for s in sources() if re.search(r"\bFLAGS\b", s.text) and not s.is_program]
    assert reading == ["albert/settings/flags.py"]


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
    assert [s.name for s in sources() if pattern.search(s.text)] == ["albert/core/estimators.py"]


def test_the_references_modules_only_name_things():
    """What anyone else would call is the core's."""
    named, public = set(), set()
    for source in sources():
        body = source.tree.body[1:]
        if source.room == "reference_api":
            kinds = ast.FunctionDef | ast.ClassDef
            public |= {node.name for node in body if isinstance(node, kinds)}
        elif source.room in NAMES_ONLY:
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
