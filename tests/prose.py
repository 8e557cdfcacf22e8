"""Finds what docs/style.md advises against: phrases in pages, messages and comments; names in code.

python -m tests.prose    lists them, and fails if it finds any
"""

import ast
import fnmatch
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterable

from tests.helpers.forking import ROOT
from tests.near import tracked

STYLE = ROOT / "docs/style.md"
# Sentences of the made-up articles.
_DATA = re.compile(r"albert/demo/(generate|relations)\.py")
# A string, and from Python 3.12 on a part of an f-string.
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_NAMED = re.compile(r"albert/.*\.py$")
_KINDS = ("Makefile", ".md", ".py", ".html", ".sh", ".flags", ".yaml")


def rules(form: str) -> dict[str, str]:
    """Returns what the tables of the style page advise against in a form, and what to write."""
    rows = re.findall(rf"^\| {form} \| ([^|]+) \|$", STYLE.read_text(encoding="utf-8"), re.M)
    return {denied: better for denied, better in rows if denied != "instead of"}


def find_names(path: pathlib.Path, patterns: Iterable[str]) -> list[tuple[int, str]]:
    """Returns the line and the pattern of every name that a file defines and should not."""
    named = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Store):
            continue
        fields = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
        if isinstance(name := next(filter(None, fields), None), str):
            matching = (p for p in patterns if fnmatch.fnmatchcase(name.lstrip("_"), p))
            named += [(node.lineno, pattern) for pattern in matching]
    return sorted(named)


def passages(path: pathlib.Path) -> list[tuple[int, str]]:
    """Returns a file's prose as line numbers and texts; for Python, its strings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        # A block of code in a page is an example, not prose.
        text = re.sub(
            r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S
        )
        return [(1, text)]
    found: list[tuple[int, str]] = []
    in_test = "tests" in path.relative_to(ROOT).parts
    with path.open("rb") as file:
        before = tokenize.NEWLINE
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                # The lines of a comment are one passage.
                if found and found[-1][1].startswith("#") and before == tokenize.NL:
                    found[-1] = found[-1][0], f"{found[-1][1]}\n{token.string}"
                else:
                    found.append((token.start[0], token.string))
            elif token.type in _STRINGS and (not in_test or '"""' in token.string):
                found.append((token.start[0], token.string))
            before = token.type
    return found


def main() -> int:
    better, denied = rules(r"([^|`]+)"), rules(r"`([^`]+)`")
    gap = r"[\s#]+"
    patterns = {p: re.compile(rf"\b{gap.join(map(re.escape, p.split()))}\b", re.I) for p in better}
    findings = []
    for name in tracked():
        path = ROOT / name
        is_prose = (path.suffix or path.name) in _KINDS and not _DATA.match(name)
        if path == STYLE or not is_prose or not path.exists():
            continue
        for first, text in passages(path):
            for phrase, pattern in patterns.items():
                for match in pattern.finditer(text):
                    line = first + text.count("\n", 0, match.start())
                    findings.append(f"{name}:{line}: {phrase!r}: write {better[phrase]}")
        for line, pattern in find_names(path, denied) if _NAMED.match(name) else ():
            findings.append(f"{name}:{line}: the name {pattern}: write {denied[pattern]}")
    print(*findings, f"{len(findings)} phrases and names to rewrite (docs/style.md)", sep="\n")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
