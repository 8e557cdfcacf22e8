"""What others build on, as text: functions of `albert`, and keys on disk.

python -m tools.public    writes tests/golden/public.txt, which tests/test_public.py compares
"""

import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

import albert
from tests.helpers.forking import ROOT

FILE = ROOT / "tests/golden/public.txt"
WRITES = "ALBERT_WRITES_PUBLIC"
_HEAD = """What others build on, see docs/installing.md. A change here is a change for users.
`make generated` writes it.
"""
_ID = re.compile(r"\d+(-\d+)+")


def sections() -> dict[str, str]:
    """Returns the texts of the file by their titles."""
    _, *parts = FILE.read_text(encoding="utf-8").split("\n## ")
    return dict(part.split("\n\n", 1) for part in parts)


def write(title: str, text: str) -> None:
    """Replaces the text of a section."""
    texts = {**(sections() if FILE.exists() else {}), title: text}
    content = "".join(f"\n## {name}\n\n{body}" for name, body in sorted(texts.items()))
    FILE.write_text(_HEAD + content, encoding="utf-8")


def functions() -> str:
    """Returns the public functions and classes of `albert`, with their arguments."""
    from albert.inference import classification, embedding, entities, squad
    from albert.report import spans

    lines = [f"albert.{name}{_arguments(getattr(albert, name))}" for name in _FUNCTIONS]
    answers = (squad.QuestionAnswer, spans.Span, embedding.Embedding, albert.Result)
    labels = (classification.LabelPrediction, classification.LabelSetPrediction)
    models = (squad.QuestionAnswerer, classification.TextClassifier, classification.OptionChooser)
    for kind in (*models, entities.EntityFinder, embedding.Embedder, *answers, *labels):
        members = _members(kind)
        lines += ["", kind.__name__, *(f"  {member}" for member in sorted(members))]
    return "\n".join(lines) + "\n"


_FUNCTIONS = ("TextClassifier", "evaluate", "load", "train")


def _members(kind: type) -> Iterator[str]:
    for name, member in inspect.getmembers(kind):
        of_package = str(getattr(member, "__module__", "")).startswith("albert")
        if name[0] != "_" and (
            name in getattr(kind, "_fields", ()) or isinstance(member, property)
        ):
            yield name
        elif name[0] != "_" and inspect.isfunction(member) and of_package:
            yield f"{name}{_arguments(member)}"


def _arguments(function: object) -> str:
    """Returns the arguments of a function without their types."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def keys(folders: Iterable[pathlib.Path]) -> str:
    """Returns the keys of all JSON files in folders, by the names of the files."""
    lines = list[str]()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".json", ".jsonl") and path.stat().st_size:
                text = path.read_text(encoding="utf-8")
                values = json.loads(text.splitlines()[0] if path.suffix == ".jsonl" else text)
                name = path.relative_to(folder)
                # A key with several values is named once.
                lines += [str(name), *(f"  {key}" for key in dict.fromkeys(_keys(values))), ""]
    return "\n".join(lines)


def _keys(value: object, prefix: str = "") -> Iterator[str]:
    """Yields the keys of objects in a value; keys that are data, such as ids, are one mark."""
    if isinstance(value, list) and value:
        yield from _keys(value[0], f"{prefix}[]." if prefix else "[].")
    elif isinstance(value, dict):
        for key in sorted(value):
            name = prefix + ("(id)" if _ID.fullmatch(key) else key)
            yield name
            yield from _keys(value[key], f"{name}.")


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/test_public.py"]
    sys.exit(subprocess.call(command, cwd=ROOT, env={**os.environ, WRITES: "1"}))
