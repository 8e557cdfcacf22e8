r"""Plants defects one at a time, and reports which test notices each.

  python -m tests.faults.planted [--count=60] [--seed=23] [--only=N,N,...] [--all] [--jobs=2]

Modules are drawn in proportion to their lines, defects from `tests/faults/mutations.py`; some
subjects get a number of them first. In a copy of the committed tree, the tests near a
changed module run until one fails; with --all, those that `make test` runs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from tests.faults.mutations import Mutation, mutations
from tests.helpers.forking import ROOT
from tests.near import near, product

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
    parser.add_argument("--all", action="store_true", help="run all tests, not those near alone")
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
