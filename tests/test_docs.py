"""The documentation: commands parse, and run or are listed; links lead somewhere."""

import ast
import functools
import importlib
import inspect
import os
import pathlib
import re
import sys

import albert as package
from albert.cli.main import COMMANDS
from albert.core.version import VERSION
from albert.tasks import by_name
from albert.tasks.squad.feature_files import read_examples
from albert.tasks.squad.questions import Questions, QuestionSource
from tests.helpers.forking import ROOT
from tests.helpers.running import albert, run, succeed
from tests.readme import pages
from tests.readme.pages import BLOCKS, NOT_RUN, PAGES, README, commands_of

# Placeholders, FLAGS-OF-THE-JOB, "...", [--an-option], and the end of a command.
PROGRAM = re.compile(r"[\w/.-]+\.(py|sh|sbatch)")
PLACEHOLDER = re.compile(r"\.\.\.|[A-Z]+(-[A-Z]+)+|\[.*\]|\$@|&")


# Programs with absl's flags, which can only be parsed.
OF_FLAGS = {path.name for path in ROOT.glob("*.py") if "run_program" in path.read_text()}
OF_FLAGS |= {f"albert {name}" for name in COMMANDS} - {
    *("albert ask", "albert predict", "albert serve", "albert demo", "albert download")
}


def shell_of(path: pathlib.Path) -> str:
    if path.suffix != ".md":
        return path.read_text(encoding="utf-8")
    blocks = [block.text for block in BLOCKS if block.page == path]
    inline = re.findall(r"`((?:make|python|deploy/[^\s`]+)\s[^`]+)`", pages.prose_of(path))
    return "\n".join([*blocks, *(" ".join(code.split()) for code in inline)])


def parts(words: list[str]) -> tuple[str, list[str]] | None:
    for number, word in reversed(list(enumerate(words))):
        flags = [flag for flag in words[number + 1 :] if not PLACEHOLDER.fullmatch(flag)]
        if word == "-m" and words[number + 1] in ("pip", "venv"):
            return None
        # Not as the name of a folder, which is the last word.
        if word == "albert" and words[number + 1 :]:
            # Each kind of download has its own flags.
            first = number + 2 + (words[number + 1] == "download")
            return " ".join(words[number:first]), words[first:]
        if word == "-m":
            return words[number + 1].replace(".", "/") + ".py", flags[1:]
        # The program to be checked is an argument.
        if PROGRAM.fullmatch(word) and words[number - 1] != "check":
            return word, flags
    return None


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
(TARGETS,) = re.findall(r"^\.PHONY:(.*)", MAKEFILE, re.MULTILINE)
SHOWN = [
    (path.name, words)
    for path in (*PAGES, *sorted((ROOT / "deploy").rglob("*.sbatch")))
    for words in commands_of(shell_of(path))
    if words[0] == "make" or parts(words)
]


@functools.cache
def help_of(program: str) -> str:
    name, _, command = program.partition(" ")
    python = [sys.executable] if program.endswith(".py") else []
    start = albert(*command.split()) if name == "albert" else [*python, str(ROOT / program)]
    result = run([*start, "--help"], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 0, result.stderr
    return result.stdout


def to_parse(words: list[str]) -> list[str] | None:
    """Returns the program and flags of a command, if it can parse them and stop."""
    if words[0] == "make":
        named = {word for word in words[1:] if re.fullmatch(r"[a-z][\w-]*", word)}
        assert named <= {*TARGETS.split()}, f"the Makefile lacks one of {named}"
        return None
    program, flags = parts(words)
    for name in filter(PROGRAM.fullmatch, (program, *words)):
        assert (ROOT / name).is_file(), f"{name} is not there"
    if program.endswith(".sbatch"):
        program = "albert squad"
    if program == "deploy/preset.sh":
        # After preset, model, data and Python.
        program, flags = "albert squad", flags[4:]
    flags = [flag for flag in flags if not PLACEHOLDER.fullmatch(flag)]
    if program in OF_FLAGS:
        # Values are parsed as well, and files of flags.
        start = albert(*program.split()[1:])[1:] if " " in program else [str(ROOT / program)]
        # A path of own data must exist.
        flags = [*flags, "--only_check_args"]
        if program in ("albert squad", "albert classify", "albert entities"):
            is_path = re.compile(r"[a-z].*[./].*")
            flags = ["README.md" if is_path.fullmatch(flag) else flag for flag in flags]
        command = [*start, *flags]
        return [word.replace("$part", "part").replace("$DEVICE", "cpu") for word in command]
    names = {flag.split("=")[0] for flag in flags if flag.startswith("--")}
    known = set(re.findall(r"--[\w-]+", help_of(program)))
    assert names <= known, f"{program} does not know {names - known}"
    return None


def test_commands_parse():
    workers_by_program: dict[str, list[tuple]] = {}
    for program, *flags in filter(None, (to_parse(words) for _, words in SHOWN)):
        workers_by_program.setdefault(program, []).append(({}, flags))
    for program, workers in workers_by_program.items():
        succeed([sys.executable, program], cwd=ROOT, workers=workers)
    programs = {parts(words)[0] for _, words in SHOWN if words[0] != "make"}
    programs_of_tasks = {"albert squad", "albert classify", "albert pretrain"}
    assert programs >= {*programs_of_tasks, "deploy/slurm/squad.sbatch"}


def test_commands_are_run_or_listed():
    """`tests/readme/walk_through.py` runs a block as a whole, or there is a reason."""
    actual = [(block, *pair) for block in BLOCKS for pair in block.reasons().items()]
    missing = [command for block, command, marks in actual if not (marks or block.is_run())]
    assert missing == [], "give a reason, or a block of their own"
    known = {(page, mark) for page in NOT_RUN for mark in pages.marks_of(page)}
    assert known == {(block.page.name, mark) for block, _, marks in actual for mark in marks}


def test_blocks_say_what_they_are():
    command = re.compile(r"^(\$ |albert |python3? |make )", re.MULTILINE)
    for block in (block for page in PAGES for block in pages.blocks_of(page)):
        assert block.language in ("bash", "text", "python"), block
        assert block.language != "text" or not command.search(block.text), block


def test_python_in_the_pages_names_existing_things():
    blocks = [block for page in PAGES for block in pages.blocks_of(page)]
    texts = [block.text for block in blocks if block.language == "python"]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []
    called = set()
    for node in (node for node in nodes if isinstance(node, ast.Call)):
        if ast.unparse(node.func).startswith("albert."):
            called.add(node.func.attr)
            given = {keyword.arg for keyword in node.keywords}
            known = {*inspect.signature(getattr(package, node.func.attr)).parameters}
            task = node.args[0].value if node.func.attr == "train" else "squad"
            known |= by_name()[task].load("settings").flags().keys()
            # The page on Python shows an error.
            assert given - {"trian_file"} <= known
    assert called == {"TextClassifier", "evaluate", "load", "train"}


def test_links_lead_somewhere_and_the_readme_names_every_page():
    wrong, of_project = [], {*ROOT.glob("*.md"), *(ROOT / ".github").glob("*.md")}
    links = [(page, to) for page in of_project.union(PAGES) for to in pages.links_of(page)]
    for page, target in links:
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and anchor not in pages.anchors_of(path)):
            wrong.append(f"{page.name}: {target}")
    assert wrong == []
    linked = {(ROOT / target.split("#")[0]).resolve() for target in pages.links_of(README)}
    assert set(PAGES) - {README} <= linked
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 140


def test_the_pages_example_questions_can_be_trained_on(tmp_path):
    files = pages.files_of("".join(b.text for b in BLOCKS if b.page.name == "squad.md"))
    used = {}
    for path, content in files.items():
        file = tmp_path / pathlib.Path(path).name
        file.write_text(content)
        questions = Questions(QuestionSource(str(file)))
        examples, left_out = read_examples(questions, file.name.startswith("train"), True)
        assert not left_out
        used[file.name] = [example.is_impossible for example in examples]
    assert used == {"train.json": [False] * 4, "dev.json": [False], "train-v2.json": [False, True]}


def test_no_page_repeats_another():
    """Flags of commands, which are short lines, may repeat."""
    on: dict[str, set[str]] = {}
    for page in PAGES:
        for line in pages.prose_of(page).splitlines():
            on.setdefault(line.strip(), set()).add(page.name)
    assert [line for line, names in on.items() if len(line) > 60 and len(names) > 1] == []


def test_pages_lead_on():
    ends = {page: page.read_text(encoding="utf-8").rstrip().split("\n\n")[-1] for page in PAGES}
    parts = {page.name for page, end in ends.items() if not re.match(r"Next: .*\]\(", end, re.S)}
    assert parts == {"README.md", "CHANGELOG.md"}


def test_the_table_of_presets_has_each_file():
    page = (ROOT / "docs/models-and-data.md").read_text(encoding="utf-8")
    table = page.partition("| preset | task |")[2].partition("\n\n")[0]
    first = " ".join(line.split("|")[1] for line in table.splitlines()[2:])
    presets = {path.stem for path in (ROOT / "configs").glob("*.flags")}
    assert {*re.findall(r"`([^`]+)`", first)} == presets


def test_the_changelog_has_this_version():
    title = re.search(r"^## \[?([\d.]+)(.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert title[1] + ".dev0" * ("not released yet" in title[2]) == VERSION
