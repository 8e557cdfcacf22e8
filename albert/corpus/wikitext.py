"""Conversion of wikitext to the plain text of its paragraphs.

Headings, lists, tables, templates, references, files, categories, comments and formulas are
dropped, like in the text that BERT was pretrained on (Devlin et al. 2018, section 3.1). A few
templates that are part of a sentence give their text. This module finds these blocks in linear
time; mwparserfromhell parses the markup inside of paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

# Elements that are dropped with their content.
_DROPPED_TAGS = (
    *("ref", "references", "math", "chem", "ce", "gallery", "timeline", "score", "hiero", "graph"),
    *("syntaxhighlight", "source", "imagemap", "mapframe", "maplink", "templatestyles", "pre"),
    *("includeonly", "style", "script", "inputbox", "categorytree", "indicator"),
    *("h1", "h2", "h3", "h4", "h5", "h6"),
)
# The same, for elements that may contain elements of their own name.
_DROPPED_NESTED_TAGS = ("table", "ul", "ol", "dl")
# Elements whose marks are dropped, and whose content stays.
_OTHER_TAGS = (
    *("abbr", "b", "bdi", "bdo", "big", "br", "cite", "code", "del", "dfn", "em", "font", "hr"),
    *("i", "ins", "kbd", "mark", "noinclude", "nowiki", "onlyinclude", "q", "rp", "rt", "ruby"),
    *("s", "samp", "section", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var"),
    "wbr",
)
# The same, for elements that stand apart from the text around them.
_BLOCK_TAGS = (
    *("blockquote", "center", "div", "p", "poem", "caption", "dd", "dt", "li", "tbody", "td", "th"),
    *("thead", "tr"),
)
_ALL_DROPPED_TAGS = (*_DROPPED_TAGS, *_DROPPED_NESTED_TAGS)
_DROPPED = re.compile(rf"<(/?)({'|'.join(_ALL_DROPPED_TAGS)})\b([^<>]*)>", re.IGNORECASE)
_CLOSING = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _DROPPED_TAGS}
_NESTED = {
    name: re.compile(rf"<(/?){name}\b[^<>]*>", re.IGNORECASE) for name in _DROPPED_NESTED_TAGS
}
# MediaWiki also removes the end of a line that holds only a comment.
_COMMENT = re.compile(r"(?<=\n)[ \t]*<!--.*?-->[ \t]*\n|<!--.*?(?:-->|\Z)", re.DOTALL)
# Text in several scripts or spellings, such as "-{zh-hans:计算机;zh-hant:電腦}-":
# https://www.mediawiki.org/wiki/Writing_systems/Syntax
_VARIANTS = re.compile(r"-\{([^{}]*)\}-")
_HIDDEN_VARIANTS = frozenset("HDT-")
# Templates that show a parameter, which has this name or number. See their pages, such as
# https://en.wikipedia.org/wiki/Template:Convert.
_SHOWN_PARAMETERS = {
    **dict.fromkeys(("nowrap", "nobr", "nobreak", "abbr", "small", "em"), ("1",)),
    **dict.fromkeys(("lang", "transl", "transliteration"), ("3", "2", "text")),
    **dict.fromkeys(("quote", "blockquote", "cquote", "quotation"), ("1", "text", "quote")),
    **dict.fromkeys(("convert", "cvt"), ()),
}
_INLINE = re.compile(
    rf"\{{\{{\s*({'|'.join(_SHOWN_PARAMETERS)})\s*\|([^{{}}]+)\}}\}}", re.IGNORECASE
)
_DEPTH = 3  # of such templates in one another
# A parameter; a pipe inside of a link does not separate parameters.
_PARAMETER = re.compile(r"((?:\[\[[^\[\]]*\]\]|[^|])*)(?:\||$)")
_NAMED = re.compile(r"\s*([\w -]+?)\s*=(.*)", re.DOTALL)
# The numbers with units of "convert" before those of its output: "5|to|10|km", "6|ft|2|in".
_NUMBER, _UNIT = r"[-+−]?[\d.,/+]+(?:e[-+]?\d+)?", r"[^\d|.,+−-][^|]*"
_RANGE = {"-": "–", "x": "by"} | {word: word for word in ("–", "to", "and", "or", "by")}
_MEASURE = re.compile(
    rf"{_NUMBER}(?:\|(?:{'|'.join(_RANGE)})\|{_NUMBER})*\|{_UNIT}(?:\|{_NUMBER}\|{_UNIT})*"
)
_UNITS = {"C": "°C", "F": "°F", "km2": "km²", "m2": "m²", "m3": "m³", "sqmi": "sq mi"}
_BRACES = re.compile(r"(?P<open>\{{2,})|\}{2,}")
_TABLES = re.compile(r"(?P<open>^[ \t:]*\{\|)|^[ \t]*\|\}", re.MULTILINE)
_SWITCH = re.compile(r"__[A-Z]+__")
_TAG = re.compile(
    rf"</?(?:{'|'.join((*_OTHER_TAGS, *_BLOCK_TAGS, *_ALL_DROPPED_TAGS))})\b[^<>]*>", re.IGNORECASE
)
# A heading, an item of a list, a row of a table, or a horizontal line.
_NO_PROSE = re.compile(r"=.*=\s*$|[*#:;|!]|\{\||-{4}")
_MARKS = re.compile(r"[\[<&]|''|https?:")
# What is left of markup that is not closed.
_UNCLOSED = re.compile(r"\[\[|\]\]|\{\{|\}\}")
# Links to the same article in another language begin with a language's code. Links to some other
# sites begin with something similar.
_LANGUAGE = re.compile(r"simple|(?!(?:doi|hdl|mw|rfc|wmf)$)[a-z]{2,3}(?:-[a-z-]+)?")
# Dumps name the namespace of files only in their language, not its aliases, such as "Bild".
_MEDIA = re.compile(
    r"\.(?:djvu|flac|gif|jpe?g|mid|mp[34]|og[agv]|pdf|png|svg|tiff?|wav|web[mp])$", re.IGNORECASE
)
# What dropped templates leave: brackets without words, and space before a comma.
_EMPTY_BRACKETS = re.compile(r" ?\([ ,;:]*\)")
_BRACKET_START = re.compile(r"\([ ,;:]+")
# Bold and italic text that is not closed.
_QUOTES = re.compile(r"'{2,}")
_SPACE_BEFORE = re.compile(r" ([,.)])")
_COMMAS = re.compile(r",(?: *,)+")
# The parser's time grows with the square of the marks in a paragraph: this is a second or two.
_MOST_WORK = 2e7


def plain_text(wikitext: str, hidden: Container[str]) -> str | None:
    """Returns a page's paragraphs without markup, separated by blank lines.

    A paragraph with markup that is not closed is dropped. The result is None if the page would take
    too long or the parser fails. `hidden` has the namespaces whose links do not show, such as
    "file", in lower case.
    """
    text = _without_tags(_VARIANTS.sub(_first_variant, _COMMENT.sub("", wikitext)))
    for _ in range(_DEPTH):
        text, count = _INLINE.subn(_shown_of_template, text)
        if not count:
            break
    text = _without_nested(_without_nested(text, _BRACES), _TABLES)
    paragraphs = list(_paragraphs(_SWITCH.sub("", text)))
    if sum(len(_MARKS.findall(paragraph)) ** 2 for paragraph in paragraphs) > _MOST_WORK:
        return None
    try:
        shown = [_inline(paragraph, hidden) for paragraph in paragraphs]
    except Exception:
        # No error of the parser, known or not, may end the conversion of all other pages.
        return None
    return "\n\n".join(text for text in shown if text and not _UNCLOSED.search(text))


def _first_variant(match: re.Match[str]) -> str:
    """Returns the first of the variants of a text; "" if it only sets a rule for the page."""
    flags, _, variants = match[1].rpartition("|")
    if not _HIDDEN_VARIANTS.isdisjoint(flag.strip().upper() for flag in flags.split(";")):
        return ""
    name, colon, text = variants.partition(";")[0].partition(":")
    return text.strip() if colon and _LANGUAGE.fullmatch(name.strip()) else variants


def _shown_of_template(match: re.Match[str]) -> str:
    """Returns the text that a template shows in a sentence; "" if it has none."""
    kind, values, numbered = match[1].lower(), dict[str, str](), list[str]()
    for part in _PARAMETER.findall(match[2]):
        if named := _NAMED.fullmatch(part):
            values[named[1].lower()] = named[2].strip()
        else:
            numbered.append(part.strip())
            values.setdefault(str(len(numbered)), numbered[-1])
    if shown := _SHOWN_PARAMETERS[kind]:
        text = next((values[name] for name in shown if values.get(name)), "")
        return f"\n\n{text}\n\n" if "quot" in kind else text
    # The numbers are not converted.
    measure = _MEASURE.match("|".join(numbered))
    words = measure[0].split("|") if measure else []
    return " ".join(_RANGE.get(word) or _UNITS.get(word, word) for word in words)


def _without_tags(text: str) -> str:
    """Drops elements that do not show as text, which may be nested in others of another name."""
    kept, position = [], 0
    unclosed = set[str]()
    while match := _DROPPED.search(text, position):
        kept.append(text[position : match.start()])
        position = match.end()
        closing, name, rest = match[1], match[2].lower(), match[3]
        if closing or rest.endswith("/") or name in unclosed:
            continue
        end = _end_of_content(text, name, position)
        if end is None:
            # Only its mark is dropped; the search is not repeated.
            unclosed.add(name)
        else:
            position = end
    return "".join([*kept, text[position:]])


def _end_of_content(text: str, name: str, start: int) -> int | None:
    """Returns where the mark is that closes an element; None if it is not closed."""
    if name in _CLOSING:
        closing = _CLOSING[name].search(text, start)
        return closing and closing.start()
    end, depth = None, 1
    for mark in _NESTED[name].finditer(text, start):
        depth += -1 if mark[1] else 1
        end = mark.start() if mark[1] else end
        if not depth:
            break
    return end


def _without_nested(text: str, marks: re.Pattern[str]) -> str:
    """Drops text between marks, which may be nested; "}}}}" closes two of "{{"."""
    opened: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []
    for match in marks.finditer(text):
        if match["open"]:
            opened.append((match.start(), len(match[0].strip(" \t:"))))
            continue
        left = len(match[0].strip())
        while left >= 2 and opened:
            start, size = opened.pop()
            closed = min(left, size)
            left, size = left - closed, size - closed
            if size >= 2:
                opened.append((start, size))
            while spans and spans[-1][0] >= start:
                spans.pop()
            spans.append((start + size, match.end() - (left if left >= 2 else 0)))
    kept, position = [], 0
    for start, end in spans:
        kept.append(text[position:start])
        position = end
    return "".join([*kept, text[position:]])


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs, which end at blank lines and at lines that are not prose."""
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip() and not _NO_PROSE.match(line.lstrip()):
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []


def _inline(paragraph: str, hidden: Container[str]) -> str:
    """Returns the text of a paragraph without the markup in it."""
    if _MARKS.search(paragraph):
        import mwparserfromhell

        paragraph = "".join(_shown(mwparserfromhell.parse(paragraph), hidden))
        paragraph = _QUOTES.sub("", _TAG.sub(" ", paragraph))
    text = _EMPTY_BRACKETS.sub("", " ".join(paragraph.split()))
    return _SPACE_BEFORE.sub(r"\1", _COMMAS.sub(",", _BRACKET_START.sub("(", text))).strip()


def _shown(code, hidden: Container[str]) -> Iterator[str]:
    """Yields the parts of parsed wikitext that show as text."""
    from mwparserfromhell import nodes

    for node in code.nodes:
        if isinstance(node, nodes.Text):
            yield node.value
        elif isinstance(node, nodes.Wikilink):
            yield from _shown_of_link(node, hidden)
        elif isinstance(node, nodes.ExternalLink):
            if node.title is not None:
                yield from _shown(node.title, hidden)
            elif not node.brackets:
                yield str(node.url)
        elif isinstance(node, nodes.HTMLEntity):
            yield node.normalize()
        elif isinstance(node, nodes.Tag):
            if node.wiki_markup is None and node.self_closing:
                yield " "
            elif node.contents is not None:
                is_block = node.wiki_markup is None and str(node.tag).lower() in _BLOCK_TAGS
                yield " " * is_block
                yield from _shown(node.contents, hidden)
                yield " " * is_block


def _shown_of_link(link, hidden: Container[str]) -> Iterator[str]:
    title = str(link.title).strip()
    prefix, colon, _ = title.partition(":")
    prefix = prefix.strip()
    is_hidden = prefix.lower() in hidden or _MEDIA.search(title) or _LANGUAGE.fullmatch(prefix)
    if prefix and colon and is_hidden:
        return
    if link.text is not None:
        yield from _shown(link.text, hidden)
    else:
        yield title.lstrip(":")
