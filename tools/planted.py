r"""Plants defects one at a time, and reports which test notices each.

  python -m tools.planted [--count=60] [--seed=23] [--only=N,N,...] [--all] [--jobs=2]

Modules are drawn in proportion to their lines, small changes of code are defects; some
subjects get a number of them first. In a copy of the committed tree, the tests near a
changed module run until one fails; with --all, those that `make test` runs.
"""

import argparse
import ast
import concurrent.futures
import copy
import itertools
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from tests.helpers.forking import ROOT
from tools.near import near, product

_PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn))
_COMPARISONS = {a: b for p in (*_PAIRS, (ast.Is, ast.IsNot)) for a, b in (p, p[::-1])}
_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
_ARITHMETIC |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Without `strict=True`, only the consequences of a programmer's mistake change.
_STRICT = "strict"
# Their text is human-readable: wrong words in it are no wrong behavior.
_TALK = ("LOG", "logging", "print", "help")


class Mutation(NamedTuple):
    """A change of one place: its line, the kind of change, and the place's source before and after
    it; and the whole module with the change."""

    line: int
    operator: str
    before: str
    after: str
    text: str


def mutations(source: str) -> list[Mutation]:
    """Lists all changes that the operators can make to a module, in the order of its lines."""
    encoded, found = source.encode(), []
    # The offset of each line, in bytes.
    begins = [0, *itertools.accumulate(len(line) + 1 for line in encoded.split(b"\n"))]
    for node, operator, changed in _changes(ast.parse(source)):
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        after = ast.unparse(changed)
        if isinstance(node, ast.expr):
            after = f"({after})"
        else:
            after = after.replace("\n", "\n" + " " * node.col_offset)
        text = (encoded[:start] + after.encode() + encoded[end:]).decode()
        before = encoded[start:end].decode()
        found.append(Mutation(node.lineno, operator, before, after, text))
    return sorted(found, key=lambda mutation: mutation.line)


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    """Yields nodes, an operator's name and the changed node; not in annotations or text."""
    yield from _changes_of(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield from _changes(child)


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword) and node.arg == _STRICT:
        return True
    if isinstance(node, ast.JoinedStr | ast.ImportFrom | ast.Import | ast.Raise | ast.Assert):
        return True
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return True
    return isinstance(node, ast.Call) and any(word in ast.unparse(node.func) for word in _TALK)


def _changes_of(node: ast.AST) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    def changed(**fields: object) -> ast.AST:
        made = copy.copy(node)
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    match node:
        case ast.Compare(ops=[one]) if type(one) in _COMPARISONS:
            yield node, "comparison", changed(ops=[_COMPARISONS[type(one)]()])
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC and not _has_text(node):
            yield node, "arithmetic", changed(op=_ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield node, "and or", changed(op=other)
            yield node, "part of a condition", changed(values=node.values[:-1])
        case ast.UnaryOp(op=ast.Not()):
            yield node, "not", node.operand
        case ast.Constant(value=bool(value)):
            yield node, "truth", changed(value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield node, "number", changed(value=value + 1)
        case ast.IfExp():
            yield node, "choice", node.body
        case ast.If():
            yield node.test, "condition", ast.Constant(True)
        case ast.Expr(value=ast.Call()):
            yield node, "statement", ast.Pass()
        case ast.AugAssign():
            yield node, "statement", ast.Pass()
        case ast.Slice():
            if node.lower:
                yield node.lower, "slice", ast.Constant(None)
            if node.upper:
                yield node.upper, "slice", ast.Constant(None)
    if isinstance(node, ast.Call):
        yield from _changed_calls(node, changed)
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        first = node.generators[0]
        if first.ifs:
            bare = ast.comprehension(first.target, first.iter, first.ifs[1:], first.is_async)
            yield node, "filter", changed(generators=[bare, *node.generators[1:]])


def _changed_calls(node: ast.Call, changed) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        yield node, "function", changed(func=ast.Name(_FUNCTIONS[node.func.id]))
    for keyword in node.keywords:
        if keyword.arg not in (None, _STRICT):
            left = [other for other in node.keywords if other is not keyword]
            yield node, f"argument {keyword.arg}", changed(keywords=left)


def _has_text(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


# Subjects that a draw by lines would miss, with their modules.
SUBJECTS = {
    "sharded state": ["albert/optimizers/sharded.py", "albert/checkpoints/sharded_state.py"],
    "elastic resume": ["albert/training/plan.py"],
    "patience": ["albert/training/evaluation.py"],
}
OF_EACH_SUBJECT = 4
# Limits in seconds for the tests that are near and for all; pytest ends a single one after 300.
LONGEST, LONGEST_OF_ALL = 600, 3600


def drawn(count: int, seed: int) -> list[tuple[str, Mutation]]:
    """Draws defects, each with the path of its module."""
    rng = random.Random(seed)
    # Benchmarks promise nothing.
    modules = [path for path in product() if not path.startswith("benchmarks/")]
    texts = {path: (ROOT / path).read_text() for path in modules}
    defects = {path: mutations(text) for path, text in texts.items()}
    chosen: dict[tuple[str, Mutation], None] = {}

    def draw(paths: list[str], total: int) -> None:
        weights = [texts[path].count("\n") * bool(defects[path]) for path in paths]
        while len(chosen) < total:
            (path,) = rng.choices(paths, weights)
            defect = rng.choice(defects[path])
            compile(defect.text, path, "exec")
            chosen[path, defect] = None

    for paths in SUBJECTS.values():
        draw(paths, len(chosen) + OF_EACH_SUBJECT)
    draw(modules, count)
    return list(chosen)


class Tree:
    """A copy of the committed tree, to plant defects in."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder / ROOT.name
        subprocess.run(["git", "clone", "-q", str(ROOT), str(self.folder)], check=True)
        if (ROOT / ".venv").exists():
            (self.folder / ".venv").symlink_to(ROOT / ".venv")

    def verdict(self, path: str, mutation: Mutation, with_all: bool) -> str:
        """Returns which test notices a defect, or that none does."""
        longest, chosen = LONGEST_OF_ALL, ["-n", "2", "--dist", "loadscope"]
        if not with_all:
            longest = LONGEST
            chosen = [str(test.relative_to(ROOT)) for test in near(ROOT / path)]
        if not chosen:
            return "no test is near"
        module = self.folder / path
        before = module.read_text()
        module.write_text(mutation.text)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--quick", *chosen]
        options = {"cwd": self.folder, "capture_output": True, "text": True, "timeout": longest}
        try:
            done = subprocess.run(command, **options)
        except subprocess.TimeoutExpired:
            return "noticed: it hangs"
        finally:
            module.write_text(before)
        if done.returncode == 0:
            return "SURVIVED"
        failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return f"noticed: {failed.group(1) if failed else 'pytest fails'}"


def main() -> None:
    """Prints a line for each defect, and how many are noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--only", type=lambda text: set(map(int, text.split(","))))
    parser.add_argument("--all", action="store_true", help="run all tests, not only those near")
    parser.add_argument("--jobs", type=int, default=1, help="defects at a time")
    parser.add_argument("--list", action="store_true", help="only say what would be planted")
    arguments = parser.parse_args()
    defects = list(enumerate(drawn(arguments.count, arguments.seed), start=1))
    chosen = [one for one in defects if not arguments.only or one[0] in arguments.only]
    with tempfile.TemporaryDirectory() as folder:
        trees: list[Tree] = []

        def verdict(of: tuple[int, tuple[str, Mutation]]) -> str:
            _, (path, mutation) = of
            tree = trees.pop() if trees else Tree(pathlib.Path(tempfile.mkdtemp(dir=folder)))
            try:
                return tree.verdict(path, mutation, arguments.all)
            finally:
                trees.append(tree)

        noticed = 0
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            verdicts = ("" for _ in chosen) if arguments.list else pool.map(verdict, chosen)
            for (number, (path, mutation)), text in zip(chosen, verdicts, strict=True):
                change = " ".join(f"{mutation.before} -> {mutation.after}".split())
                place = f"{path}:{mutation.line}, {mutation.operator}"
                print(f"{number}. {place}: {change[:160]}\n    {text}", flush=True)
                noticed += text.startswith("noticed")
    print(f"{noticed} of {len(chosen)} noticed, seed {arguments.seed}")


if __name__ == "__main__":
    main()
