"""The rooms of the package, floor by floor, and a list of them: `python -m tools.rooms --write`.

The list is in docs/architecture.md. Tests compare it with FLOORS, and FLOORS with the imports.
`python -m tools.rooms --reachable MODULES` counts the files and lines that modules import.
"""

import ast
import functools
import pathlib
import re
import sys

from tests.helpers.forking import ROOT
from tools.near import imported

PAGE = ROOT / "docs/architecture.md"
# The reference's modules that only define names.
NAMES_ONLY = ("classifier_utils", "fine_tuning_utils", "lamb_optimizer", "race_utils")
NAMES_ONLY += ("squad_utils",)
# Rooms from the ground up: each may import those on lower floors. A room is a folder of the
# package, the folder of a task, or a module outside the folders.
FLOORS = (
    ("core",),
    ("distributed", "download", "settings", "tables", "tokenizers"),
    ("checkpoints", "devices", "report", "tokenization"),
    ("model", "optimizers", "precision", "records"),
    ("modeling", "onnx", "optimization"),
    ("corpus", "openvino"),
    ("prediction",),
    ("training",),
    ("tasks.classification",),
    ("tasks.entities", "tasks.glue", "tasks.pretraining", "tasks.race", "tasks.squad"),
    ("convert", "inference", "preflight", "reference_api"),
    ("demo", "serving", *NAMES_ONLY),
    ("api",),
    ("quantization", "sklearn"),
    ("cli",),
    ("create_pretraining_data", "run_classifier", "run_pretraining", "run_race"),
    ("__main__", "run_squad_v1", "run_squad_v2"),
)
# The most lines of each folder. Who needs more changes the number in the same commit, whose message
# says why. `python -m tools.rooms --budgets` prints a table for the lines of today.
BUDGETS = {
    "checkpoints": 2_230,
    "cli": 2_710,
    "convert": 390,
    "core": 1_350,
    "corpus": 490,
    "demo": 120,
    "devices": 690,
    "distributed": 520,
    "download": 960,
    "inference": 1_410,
    "model": 840,
    "onnx": 190,
    "openvino": 250,
    "optimizers": 430,
    "precision": 710,
    "prediction": 420,
    "preflight": 1_010,
    "quantization": 180,
    "records": 1_580,
    "reference_api": 1_010,
    "report": 510,
    "serving": 840,
    "settings": 930,
    "tables": 1_100,
    "tasks.classification": 840,
    "tasks.entities": 1_290,
    "tasks.glue": 1_750,
    "tasks.pretraining": 1_720,
    "tasks.race": 260,
    "tasks.squad": 2_710,
    "tokenizers": 1_010,
    "training": 2_870,
}
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room_of(module: str) -> str:
    """Returns the room of a module of the package; "" for the package itself and for `tasks`."""
    _, *parts = module.split(".")
    return ".".join(parts[: 2 if parts[:1] == ["tasks"] else 1])


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
        # "albert.tasks.squad.task.SquadV1Task" belongs to the room of its longest prefix.
        rooms = {room_of(name) for name in self.modules if name.startswith("albert.")}
        self.used_rooms = {room for room in rooms if room in FLOOR_OF} - {self.room}
        self.tops = {name.split(".")[0] for name in self.modules}


@functools.cache
def sources() -> list[Source]:
    return [Source(path) for path in sorted((ROOT / "albert").rglob("*.py"))]


def lines_of_rooms() -> dict[str, int]:
    """Returns the number of lines of each folder in FLOORS, by its room."""
    lines = dict[str, int]()
    for source in sources():
        if source.room in FLOOR_OF and source.path.parent != ROOT / "albert":
            lines[source.room] = lines.get(source.room, 0) + source.text.count("\n")
    return lines


def listing() -> str:
    """Returns the floors, from the top, as a list in Markdown, without mere entries to rooms."""
    unlisted = ("__main__", "run_", "create_", *NAMES_ONLY)
    rows = [[room for room in floor if not room.startswith(unlisted)] for floor in reversed(FLOORS)]
    names = [", ".join(f"`{room.replace('.', '/')}`" for room in row) for row in rows if row]
    return "\n".join(f"{number}. {row}" for number, row in enumerate(names, 1))


def reached(room: str, uses: dict[str, set[str]]) -> set[str]:
    """Returns the rooms, or modules, that one uses, directly or through others."""
    known, todo = set[str](), [*uses[room]]
    while todo:
        if (name := todo.pop()) not in known:
            known.add(name)
            todo += uses[name]
    return known


def reachable(*modules: str) -> list[Source]:
    """Returns the files that modules need, directly or through the imports of others."""
    by_name = {source.module.removesuffix(".__init__"): source for source in sources()}
    uses = {
        name: {*source.modules, name.rpartition(".")[0]} & by_name.keys()
        for name, source in by_name.items()
    }
    # The package itself imports its public functions only when they are used.
    uses |= {"albert": set(), "": {*modules} & by_name.keys()}
    return [by_name[name] for name in reached("", uses)]


def listed_in(text: str) -> str:
    return re.search(r"^1\. .*(?:\n\d+\. .*)*", text, re.MULTILINE)[0]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--reachable"]:
        files = reachable(*sys.argv[2:])
        print(f"{len(files)} files, {sum(file.text.count(chr(10)) for file in files)} lines")
        sys.exit()
    if sys.argv[1:] == ["--budgets"]:
        print({room: -(-count // 10) * 10 for room, count in lines_of_rooms().items()})
        sys.exit()
    page = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        PAGE.write_text(page.replace(listed_in(page), listing()), encoding="utf-8")
    print(listing())
