"""Finds phrases that docs/style.md advises against, in pages, messages, docstrings and comments.

python -m tests.prose    lists them, and fails if it finds any
"""

from __future__ import annotations

import pathlib
import re
import sys
import tokenize

from tests.near import tracked

ROOT = pathlib.Path(__file__).resolve().parent.parent
STYLE = ROOT / "docs/style.md"
# Sentences of the made-up articles.
_DATA = re.compile(r"albert/demo/(generate|relations)\.py")
# A string, and from Python 3.12 on a part of an f-string.
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_KINDS = ("Makefile", ".md", ".py", ".html", ".sh", ".flags", ".yaml")


def phrases() -> dict[str, str]:
    """Returns the phrases of the style page, and what to write instead."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", STYLE.read_text(encoding="utf-8"), re.M)
    return {phrase: better for phrase, better in rows if phrase != "instead of"}


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
    """Prints the findings; returns the exit code."""
    better = phrases()
    gap = r"[\s#]+"
    patterns = {p: re.compile(rf"\b{gap.join(map(re.escape, p.split()))}\b", re.I) for p in better}
    count = 0
    for name in tracked():
        path = ROOT / name
        if (
            path == STYLE
            or (path.suffix or path.name) not in _KINDS
            or _DATA.match(name)
            or not path.exists()
        ):
            continue
        for first, text in passages(path):
            for phrase, pattern in patterns.items():
                for match in pattern.finditer(text):
                    count += 1
                    line = first + text.count("\n", 0, match.start())
                    print(f"{name}:{line}: {phrase!r}: write {better[phrase]}")
    print(f"{count} phrases to rewrite (docs/style.md)")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
