"""Hooks of MkDocs: the pages of the site that are not files in `docs/`, and links out of `docs/`.

The start page is the README, so that the site and a code host show the same. The reference of the
Python functions is made from their docstrings.
"""

import pathlib
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import albert

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pages outside of docs/, by their names in the site.
PAGES = {
    "index.md": "README.md",
    "contributing.md": ".github/CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security_policy.md": ".github/SECURITY.md",
    "releasing.md": ".github/RELEASING.md",
    "roadmap.md": ".github/ROADMAP.md",
    "maintainers.md": ".github/MAINTAINERS.md",
}
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for name, source in PAGES.items():
        path = ROOT / source
        text = _linked(path.read_text(encoding="utf-8"), path.parent, config)
        files.append(File.generated(config, name, content=text))
    functions = "\n\n".join(f"::: {_module_of(name)}.{name}" for name in sorted(albert.__all__))
    text = "# Python reference\n\n[Python](python.md) is a guide to these functions.\n\n"
    files.append(File.generated(config, "api.md", content=text + functions))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the links of a page in `docs/` that lead out of it."""
    if page.file.generated_by:
        return markdown
    return _linked(markdown, ROOT / "docs", config)


def _linked(markdown: str, folder: pathlib.Path, config: MkDocsConfig) -> str:
    """Returns a page whose links lead to pages of the site, or to files of the repository."""

    def link(match: re.Match[str]) -> str:
        path = (folder / match[1]).resolve().relative_to(ROOT)
        pages = {source: name for name, source in PAGES.items()}
        if str(path) in pages:
            return pages[str(path)]
        if path.parts[0] == "docs" and len(path.parts) > 1:
            return str(path.relative_to("docs"))
        return f"{config.repo_url}/blob/main/{path}"

    return _LINK.sub(link, markdown)


def _module_of(name: str) -> str:
    """Returns the module in which a public function is defined."""
    source = (ROOT / "albert/__init__.py").read_text(encoding="utf-8")
    (module,) = re.findall(rf"from (\S+) import .*\b{name}\b", source)
    return module
