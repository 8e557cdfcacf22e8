"""Wikitext: the text of its paragraphs, broken markup, and pages that would take too long."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.corpus.documents import LONGEST_PAGE
from albert.corpus.wikitext import plain_text

HIDDEN = {"file", "image", "category", "datei"}
ARTICLE = """{{Infobox town
| name = Old Town {{small|{{lang|de|Altstadt}}}}
| area = {{{area|12}}}
}}
[[File:Gate.jpg|thumb|The [[gate]] at night]]
'''Old Town''' ({{IPA|x}}; {{lang|de|Altstadt}}) is a [[town|small ''town'']] on the [[Elbe]].<ref
name="a">{{cite book|title=Towns}} p. 5</ref> It has {{convert|5|km}} of walls,<ref name="a" /> and
[http://example.org/ a church].<!-- check
this --> <br/>Its mayor earns 5&nbsp;&euro; &amp; more.

== History ==
{| class="wikitable"
! Year !! People
|-
| 1900 || {|
| nested
|}
|}
Water is H<sub>2</sub>O.<math>\\frac{a}{b}</math> __NOTOC__
<gallery>
Datei:One.jpg|One
</gallery>
* A list
** with [[links]]
# numbered
; term : meaning
----
<div class="note">The '''''walls''''' {{fell|in|1850}}.</div>
=== See also ===
[[Datei:Map.png|mini]] [[Category:Towns]] [[fr:Vieille Ville]] [[:Category:Towns|All towns]]
[[de:Altstadt|x]] [[Wikipedia:About]]
"""


def test_an_article_becomes_its_paragraphs():
    assert plain_text(ARTICLE, HIDDEN).split("\n\n") == [
        "Old Town (Altstadt) is a small town on the Elbe. It has 5 km of walls, and a church. "
        "Its mayor earns 5 € & more.",
        "Water is H2O.",
        "The walls.",
        "All towns Wikipedia:About",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A paragraph with something unclosed is dropped; the others stay.
        ("{{Infobox\n| a = b\n| c = d\n\nText.", "Text."),
        ("Open [[link.\n\nText.", "Text."),
        ("Closed}} twice.\n\nText.", "Text."),
        ("{|\n| a\n| b\nText.", "Text."),
        ("Text.\n|}\nMore.", "Text.\n\nMore."),
        # An unclosed reference hides nothing; an unclosed comment hides the rest.
        ("Text.<ref>Source.\n\nMore.", "Text.Source.\n\nMore."),
        ("Text.<!-- hidden\n\nMore.", "Text."),
        ("Text.</ref></div><div>More.", "Text. More."),
        ("''Italic text.", "Italic text."),
        ("a < b and b > c, i.e. 1 <2", "a < b and b > c, i.e. 1 <2"),
        ("{{a|{{{b|{{c}}}}}}}Text {{{{{d}}}}}.", "Text."),
        ("}}{{Text.", ""),
        ("<REF group=x>a</Ref>Text.<ref name='x'/>", "Text."),
        ("<ref>a <math>b</math> c</ref>Text.", "Text."),
        ("http://example.org is a [//a.b] link", "http://example.org is a link"),
        # Lower-case letters may be longer: "İ".lower() has two characters.
        ("İİİ is old.<ref>x</ref> It is.<ref>y</ref> Here.", "İİİ is old. It is. Here."),
        ("<p>One.</p><p>Two.</p><UL>\n<li>a<ul><li>b</ul>c</ul>End<h2>x</h2>", "One. Two. End"),
        ("A<table>a<table>b</table>c</table> <table>d</table>B<table> C", "A B C"),
        (
            "[[Bild:A.JPG|mini|A [[b]].]][[:Bild:A.jpg]] [[mw:API|the API]][[simple:A]]",
            "Bild:A.jpg the API",
        ),
        ("-{zh-hans:a;zh-hant:b}--{H|zh:c}--{d}- -{zh:[[e]]}- -{zh-hans;zh-hk|f}-", "ad e f"),
        ("One\n <!-- c --> \ntwo.<!-- d -->\nThree.", "One two. Three."),
        ("&#x41;&copy;&unknown; &#xD800;.", "A©&unknown; \ud800."),
        ("", ""),
        # Templates that are part of a sentence show a parameter, also within each other.
        ("It is {{convert|98|km|mi|0|abbr=on}} long.", "It is 98 km long."),
        (
            "{{Cvt|5|to|10|km2}}, {{convert|6|ft|2|in}} {{convert|-3|C}}",
            "5 to 10 km², 6 ft 2 in -3 °C",
        ),
        ("{{nowrap|5 {{lang|de|[[Elbe|an der Elbe]]}}}} {{lang-de|x}}.", "5 an der Elbe."),
        (
            "A.{{quote|text=B {{nobr|1=c = d}}|author=E}}F{{quote|{{x}}}}{{convert|a|km}}",
            "A.\n\nB c = d\n\nF",
        ),
        ("One<chem>x</chem>, <chem>y</chem>, two.", "One, two."),
    ],
)
def test_broken_and_unusual_markup(text, expected):
    assert plain_text(text, HIDDEN) == expected


MARKS = ["{{", "}}", "{|", "|}", "\n", "[[", "]]", "<ref>", "</ref>", "a"]


@given(st.text() | st.lists(st.sampled_from(MARKS)).map("".join))
def test_no_markup_of_templates_or_links_is_left_of_any_text(text):
    assert not any(mark in plain_text(text, HIDDEN) for mark in ("{{", "}}", "[[", "]]"))


@given(
    st.lists(st.text("abc .,", min_size=1).map(lambda t: "a" + t), max_size=5), st.integers(0, 4)
)
def test_templates_and_tables_anywhere_change_nothing(paragraphs, depth):
    plain = plain_text("\n\n".join(paragraphs), HIDDEN)
    template = "{{x|" * depth + "\n\ny" + "}}" * depth if depth else ""
    table = "{|\n|" * depth + " z" + "\n|}" * depth if depth else ""
    assert plain_text(f"\n\n{table}\n\n{template}".join(paragraphs), HIDDEN) == plain


@pytest.mark.parametrize(
    "part",
    [
        "{{a|",
        "{{lang|[[",
        "{{nowrap|[[|[[|}}",
        "{{{a|[[b|<i>",
        "[[a|",
        "<ref>{{",
        "\n{|\n|a",
        "[http://a ",
        "''a '''",
        " ",
    ],
)
def test_a_page_full_of_unclosed_markup_takes_seconds_at_most(part):
    """Without the limit, the parser takes minutes or hours for some of these."""
    page = part * (LONGEST_PAGE // len(part)) + "x"
    started = time.process_time()
    plain_text(page, HIDDEN)
    assert time.process_time() - started < 10


def test_a_page_that_the_parser_cannot_read_is_none(monkeypatch):
    assert plain_text("[[a|" * 20_000, HIDDEN) is None
    monkeypatch.setattr("mwparserfromhell.parse", lambda text: 1 / 0)
    assert plain_text("a ''b''", HIDDEN) is None
