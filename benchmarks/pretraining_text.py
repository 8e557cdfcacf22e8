"""Times text for pretraining from a made-up dump of --mb MB, next to the plain way.

The plain way is that of most tutorials: bz2, iterparse and mwparserfromhell's strip_code, in one
process; it splits no sentences and drops no duplicates. The ways take turns, each in a separate
process; start-up does not count.
"""

import bz2
import pathlib
import random
import shutil
import statistics
import tempfile
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from benchmarks.parts.flags import Flags, parse
from benchmarks.parts.harness import (
    GIGABYTES,
    Table,
    Way,
    in_turns,
    measured,
    print_estimate,
    ratios_of,
)

_XMLNS = "http://www.mediawiki.org/xml/export-0.11/"


def main() -> None:
    """Makes a dump, runs every way in a separate process, several times, and prints the table."""
    flags = parse(__doc__, WAYS, mb=20.0, rounds=3)
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        mb = write_dump(f"{folder}/dump.xml.bz2", flags.mb)
        results = in_turns(WAYS, flags.rounds, f"--folder={folder}", f"--mb={mb}")
    table = Table("MB", "articles", "MB/s", "times plain", "memory", "worker")
    seconds = {way: [one["seconds"] for one in rounds] for way, rounds in results.items()}
    for way, rounds in results.items():
        ratio = statistics.median(ratios_of(seconds["plain, one process"], seconds[way]))
        rate = f"{mb / statistics.median(seconds[way]):.2f}"
        peaks = (max(ones) for ones in zip(*(one["memory"] for one in rounds), strict=True))
        row = f"{mb:.1f}", rounds[0]["records"], rate, f"{ratio:.2f}"
        table.row(way, *row, *(f"{peak:.0f} MB" for peak in peaks))
    # Of two workers. Hosts share the files of a dump.
    whole = GIGABYTES * 1000 / rounds[0]["text_mb"]
    print_estimate("from a dump", whole * statistics.median(seconds[way]))


def write_dump(path: str, mb: float) -> float:
    """Writes a dump of articles with the markup of Wikipedia's; returns its size in MB."""
    rng, size, number = random.Random(1), 0, 0
    with bz2.open(path, "wt", encoding="utf-8") as file:
        size += file.write(f'<mediawiki xmlns="{_XMLNS}"><siteinfo></siteinfo>\n')
        while size < mb * 1e6:
            number += 1
            namespace, redirect = rng.choices([(0, ""), (0, "<redirect/>"), (1, "")], [6, 2, 2])[0]
            text = "#REDIRECT [[A]]" if redirect else article(rng, number)
            size += file.write(
                f"<page><title>Article {number}</title><ns>{namespace}</ns>{redirect}<revision>"
                f"<text>{escape(text)}</text></revision></page>\n"
            )
        size += file.write("</mediawiki>\n")
    return size / 1e6


def article(rng: random.Random, number: int) -> str:
    """Returns an article: an infobox, sections with links and references, lists and a table."""
    rows = "\n".join(f"| field{k} = {{{{small|{words(rng, 4)}}}}}" for k in range(12))
    parts = [f"{{{{Infobox thing\n{rows}\n}}}}", f"'''Article {number}''' {sentence(rng)}"]
    for _ in range(rng.randint(2, 12)):
        parts.append(f"== {words(rng, 2)} ==")
        for _ in range(rng.randint(1, 4)):
            parts.append(" ".join(sentence(rng) for _ in range(rng.randint(3, 8))))
    cells = "\n|-\n".join(f"| {words(rng, 2)} || {rng.randint(1, 999)}" for _ in range(15))
    items = "\n".join(f"* [[{words(rng, 2)}]]" for _ in range(10))
    ends = [f'{{| class="wikitable"\n{cells}\n|}}', "== See also ==", items, "[[Category:Thing]]"]
    return "\n\n".join([*parts, *ends])


def sentence(rng: random.Random) -> str:
    """Returns a sentence with a link and, often, a reference."""
    text = f"{words(rng, 6).capitalize()} [[{words(rng, 2)}|{words(rng, 1)}]] {words(rng, 8)}."
    source = f"{{{{cite web|url=http://a.b/{rng.randint(1, 9999)}|title={words(rng, 6)}}}}}"
    return text + f"<ref>{source}</ref>" * (rng.random() < 0.4)


def words(rng: random.Random, count: int) -> str:
    return " ".join("".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(count))


def ours(flags: Flags) -> dict:
    """Times this project."""
    from albert.corpus.conversion import Options, make_corpus
    from albert.corpus.sources import find_sources

    output, workers = f"{flags.folder}/text", 1 if flags.way == "one process" else 2
    sources = find_sources(f"{flags.folder}/dump.xml.bz2", output)

    def work() -> int:
        return make_corpus(sources, output, Options(), workers)["totals"]["kept"]

    result = measured(work, flags.mb)
    result["text_mb"] = sum(path.stat().st_size for path in pathlib.Path(output).iterdir()) / 1e6
    shutil.rmtree(output)
    return result


def plain(flags: Flags) -> dict:
    """Times the plain way."""
    import mwparserfromhell

    def work() -> int:
        kept, name = 0, f"{{{_XMLNS}}}"
        with (
            bz2.open(f"{flags.folder}/dump.xml.bz2") as file,
            open(f"{flags.folder}/plain.txt", "w", encoding="utf-8") as out,
        ):
            for _, element in ElementTree.iterparse(file):
                if element.tag == f"{name}page":
                    if element.findtext(f"{name}ns") == "0":
                        text = element.findtext(f"{name}revision/{name}text") or ""
                        out.write(mwparserfromhell.parse(text).strip_code() + "\n\n")
                        kept += 1
                    element.clear()
        return kept

    return measured(work, flags.mb)


WAYS = {"plain, one process": Way(plain), "one process": Way(ours), "2 workers": Way(ours)}

if __name__ == "__main__":
    main()
