"""MediaWiki dumps that tests make."""

from collections.abc import Iterable
from xml.sax.saxutils import escape

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
<siteinfo><sitename>Wiki</sitename><namespaces><namespace key="0" />
<namespace key="6">Datei</namespace><namespace key="14">Kategorie</namespace></namespaces>
</siteinfo>
"""


def page(text: str, namespace: int = 0, redirect: bool = False, title: str = "A page") -> str:
    to = '<redirect title="Another" />' if redirect else ""
    return (
        f"<page><title>{escape(title)}</title><ns>{namespace}</ns><id>1</id>{to}<revision><id>2</id>"
        f"<contributor><username>Somebody</username></contributor><model>wikitext</model>"
        f'<text bytes="{len(text)}" xml:space="preserve">{escape(text)}</text></revision></page>\n'
    )


def dump(pages: Iterable[str]) -> bytes:
    return (HEAD + "".join(pages) + "</mediawiki>\n").encode()
