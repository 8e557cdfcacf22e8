"""Small defects that can be planted into a module: the change, and the resulting text."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from typing import NamedTuple

_PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn))
_COMPARISONS = {a: b for p in (*_PAIRS, (ast.Is, ast.IsNot)) for a, b in (p, p[::-1])}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Without `strict=True`, only the consequences of a programmer's mistake change.
_STRICT = "strict"
# Their text is human-readable: wrong words in it are no wrong behavior.
_TALK = ("LOG", "logging", "print", "help")


class Mutation(NamedTuple):
    """A change of one place.

    Attributes:
      line: of the place, counted from 1.
      operator: the kind of change.
      before, after: the source of the place.
      text: the whole module with the change.
    """

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
