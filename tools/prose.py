"""Finds phrases and names that this project avoids in pages, messages, comments and code.

python -m tools.prose    lists them, and fails if it finds any
"""

import ast
import fnmatch
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterable

from tests.helpers.forking import ROOT
from tools.near import tracked

# Phrases, mostly translated ones, and what native writers usually choose.
PHRASES = {
    "that is there": "existing; that exists",
    "that are there": "existing; that exist",
    "is there already": "already exists",
    "is not there": "does not exist; is missing",
    "if there is one": "if it exists; if any",
    "if there are any": "if any",
    "there is none": "it does not exist; there are no ...",
    "but for": "except; apart from",
    "anew": "again",
    "is no goal": "is out of scope",
    "likewise": "also; in the same way",
    "besides": "in addition to; also; and",
    "beside": "next to; alongside; and",
    "all the same": "anyway; still",
    "for people": "human-readable",
    "whoever": "the caller; anyone who",
    "whatever": "any; regardless of",
    "so many": "this many; that number of",
    "several ones": "several",
    "of its own": "its own; separate; dedicated",
    "one's own": "your own",
    "an own": "its own; a separate",
    "the own": "its own",
    "says of": "reports for",
    "said of": "reported for",
    "shared out": "distributed; sharded",
    "share out": "distribute; shard",
    "taken up": "resumed; handled",
    "goes on": "continues; resumes",
    "go on": "continue; resume",
    "went on": "continued",
    "left out": "omitted; skipped; excluded",
    "cut to": "truncated to",
    "cut off": "truncated",
    "stands for": "represents; means",
    "stands in": "is in",
    "stands before": "precedes",
    "lies in": "is in",
    "lie in": "are in",
    "looked at": "checked; inspected",
    "and the like": "and similar",
    "in the place of": "instead of",
    "to the bit": "bit for bit",
    "any more": "no longer",
    "as it stands": "unchanged; as is",
    "by itself": "on its own; automatically",
    "is due": "is needed; is pending",
    "what follows": "this section; the rest",
    "is to be": "must be; should be; will be",
    "are to be": "must be; should be; will be",
    "would else": "would otherwise",
    "as ever": "as before",
    "here and there": "in some places",
    "by which": "that; with which",
    "without a word": "silently",
    "one after the other": "in sequence; one at a time",
    "tells whether": "returns whether; shows whether",
    "alone": "only",
}
# Names in `albert/`: a name says what a value is, in the field's terms.
NAMES = {
    "found": "what was found: paths, matches, labels",
    "place": "location, position, offset or slot",
    "places": "locations, positions, offsets or slots",
    "wishes": "requests",
    "wanted": "requested, or what it is: flags, splits",
    "asked": "requested, or what it is: questions, texts",
    "of_*": "the noun last: row_gradients, label_losses",
}
# Sentences of the made-up articles, and the phrases above.
_DATA = re.compile(r"tools/sample/(generate|relations)\.py|tools/prose\.py")
# A string, and from Python 3.12 on a part of an f-string.
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_NAMED = re.compile(r"albert/.*\.py$")
_KINDS = ("Makefile", ".md", ".py", ".html", ".sh", ".flags", ".yaml")


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
    gap = r"[\s#]+"
    patterns = {p: re.compile(rf"\b{gap.join(map(re.escape, p.split()))}\b", re.I) for p in PHRASES}
    findings = []
    for name in tracked():
        path = ROOT / name
        is_prose = (path.suffix or path.name) in _KINDS and not _DATA.match(name)
        if not is_prose or not path.exists():
            continue
        for first, text in passages(path):
            for phrase, pattern in patterns.items():
                for match in pattern.finditer(text):
                    line = first + text.count("\n", 0, match.start())
                    findings.append(f"{name}:{line}: {phrase!r}: write {PHRASES[phrase]}")
        for line, pattern in find_names(path, NAMES) if _NAMED.match(name) else ():
            findings.append(f"{name}:{line}: the name {pattern}: write {NAMES[pattern]}")
    print(*findings, f"{len(findings)} phrases and names to rewrite", sep="\n")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
