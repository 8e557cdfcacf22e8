"""The page on troubleshooting: users search it for messages, so it must have them verbatim."""

import ast
import re

from tests.helpers.forking import ROOT
from tools.rooms import sources

# The value in a message, which the page writes as "...".
VALUE = "\0"


def messages() -> list[str]:
    """Returns all texts of the package, with `VALUE` for each value in them."""
    # The texts that modules name, such as `RECORD = "run.json"`.
    named = {
        node.targets[0].id: node.value.value
        for source in sources()
        for node in source.tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }

    def text_of(node: ast.AST) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(map(text_of, node.values))
        if isinstance(node, ast.FormattedValue):
            return named.get(getattr(node.value, "id", ""), VALUE)
        value = getattr(node, "value", None)
        return re.sub(r"%(\.\d)?[sdrfg]", VALUE, value) if isinstance(value, str) else ""

    nodes = (node for source in sources() for node in source.nodes)
    texts = [text_of(n) for n in nodes if isinstance(n, ast.Constant | ast.JoinedStr)]
    files = (ROOT / name for name in ("Makefile", "requirements/system.py"))
    others = [re.sub(r"\$\(\w+\)|\{\w+\}", VALUE, f.read_text(encoding="utf-8")) for f in files]
    return [*texts, *others]


def test_every_message_on_the_page_is_one_of_the_programs():
    known, page = messages(), (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    cited = re.findall(r"^\| `(.*?)` \|", page, re.MULTILINE)

    def is_printed(message: str) -> bool:
        parts = [re.escape(part) for part in message.split("...")]
        # What is at the beginning or end of the cited text may be in the middle of a message.
        pattern = re.compile(".*".join(parts))
        return any(map(pattern.search, known))

    assert len(cited) > 60
    assert [message for message in cited if not is_printed(message)] == []
