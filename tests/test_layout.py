"""The house rules that a machine can check; each test lists all violations."""

import ast
import re

from tests.helpers.forking import ROOT
from tools.rooms import (
    BUDGETS,
    FLOOR_OF,
    FLOORS,
    NAMES_ONLY,
    PAGE,
    lines_of_rooms,
    listed_in,
    listing,
    reachable,
    sources,
)


def test_imports_run_downward():
    """And nothing imports a root name, or a package that only tests have."""
    roots = {path.stem for path in ROOT.glob("*.py")} | {"tests", "tools", "benchmarks"}
    wrong = {}
    for source in sources():
        # The package itself, and a folder that only holds rooms, may name their contents.
        floor = FLOOR_OF.get(source.room, len(FLOORS))
        above = {room for room in source.used_rooms if FLOOR_OF[room] >= floor}
        wrong[source.name] = above | source.tops & (roots | {"torch", "transformers", "six"})
    assert {name: found for name, found in wrong.items() if found} == {}
    assert {source.room for source in sources()} - {"", "tasks"} == FLOOR_OF.keys()


def test_answering_does_not_need_the_code_of_training():
    files = reachable("albert.inference.loading")
    assert {file.room for file in files} & {"training", "preflight"} == set()
    assert sum(file.text.count("\n") for file in files) < 14_100


def test_the_list_shows_the_actual_rooms():
    """`python -m tools.rooms --write` renews it."""
    assert listed_in(PAGE.read_text(encoding="utf-8")) == listing()


def test_rooms_keep_to_their_budgets():
    lines = lines_of_rooms()
    over = {room: count for room, count in lines.items() if count > BUDGETS.get(room, 0)}
    assert over == {}, "delete code, or change BUDGETS in the same commit and say why"
    assert BUDGETS.keys() == lines.keys()


def test_drivers_horovod_and_optional_packages_have_one_module_each():
    packages = ("backports", "habana_frameworks", "horovod", "mlflow", "onnx")
    for package in (*packages, "nncf", "openvino", "pyarrow", "sentencex", "sklearn"):
        assert len([s.name for s in sources() if package in s.tops]) == 1


def test_flags_are_only_read_by_settings():
    reading = {source.name for source in sources() if re.search(r"flags\.FLAGS\b", source.text)}
    program = {f"albert/cli/{name}.py" for name in ("lifecycle", "command_line")}
    assert reading == {"albert/settings/absl_flags.py", *program}


def test_functions_and_modules_are_short():
    """60 lines without docstring, comments and empty lines; 550 for a module."""
    long = [source.name for source in sources() if len(source.text.splitlines()) > 550]
    for source in sources():
        for node in source.functions:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = {line for part in body for line in range(part.lineno, part.end_lineno + 1)}
            long += [f"{source.name}: {node.name}"] if len(lines) > 60 else []
    assert long == []


def test_estimators_come_from_one_module():
    """`tf.estimator` exists only up to TensorFlow 2.15."""
    pattern = re.compile(r"\btf2?\.estimator\b|tensorflow_estimator")
    assert [s.name for s in sources() if pattern.search(s.text)] == ["albert/core/estimators.py"]


def test_the_references_modules_only_define_names():
    named, public = set(), set()
    for source in sources():
        body = source.tree.body[1:]
        if source.room == "reference_api":
            kinds = ast.FunctionDef | ast.ClassDef
            public |= {node.name for node in body if isinstance(node, kinds)}
        elif source.room in NAMES_ONLY:
            assert {type(node) for node in body} == {ast.ImportFrom}, source.name
            named |= {alias.name for node in body for alias in node.names}
    public = {name for name in public if name[0] != "_"} - {"input_fn_of", "model_fn_of", "refuse"}
    assert public and public <= named


def test_docstrings_begin_with_a_verb():
    """Those of public functions do not begin with a noun phrase or a question."""
    no_verb = re.compile(r"(An?|The|This|What|Whether|Where|Why|How|Of)\b")
    question = re.compile(r"(What|How|Which|Where|Why|Who)\b")
    wrong, kinds = [], ast.FunctionDef | ast.ClassDef | ast.Module
    for source in sources():
        texts = {n: ast.get_docstring(n) or "" for n in source.nodes if isinstance(n, kinds)}
        public = [node for node in source.functions if node.name[0] != "_"]
        wrong += [f"{source.name}: {n.name}" for n in public if no_verb.match(texts[n])]
        wrong += [source.name for text in texts.values() if text.startswith("Returns what")]
        wrong += [source.name] if question.match(texts[source.tree]) else []
    assert wrong == []


def test_no_test_module_is_imported():
    pattern = re.compile(r"^\s*(?:from|import) tests\b.*\b(?:test_\w+|conftest)\b", re.MULTILINE)
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert [str(path) for path in files if pattern.search(path.read_text(encoding="utf-8"))] == []
