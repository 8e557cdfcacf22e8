"""Times text for pretraining from a made-up dump, next to the plain way.

  make bench NAME=pretraining_text FLAGS="--mb 50 --rounds 3"

The plain way is that of most tutorials: bz2, iterparse and mwparserfromhell's strip_code, in one
process; it splits no sentences and drops no duplicates. The ways take turns, each in a separate
process; start-up does not count.
"""

from __future__ import annotations

import argparse
import bz2
import os
import random
import shutil
import statistics
import tempfile
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from benchmarks.parts.harness import give, measured, new_parser, run_again

_HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"><siteinfo></siteinfo>\n'


def main() -> None:
    """Makes a dump, runs every way in a separate process, several times, and prints the table."""
    flags = parse_flags()
    if flags.way:
        give(WAYS[flags.way](flags))
        return
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        flags.mb = write_dump(os.path.join(folder, "dump.xml.bz2"), flags.mb)
        rounds = [
            {
                way: run_again(
                    "pretraining_text", f"--way={way}", f"--folder={folder}", f"--mb={flags.mb}"
                )
                for way in WAYS
            }
            for _ in range(flags.rounds)
        ]
    print_table(rounds)


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--mb", type=float, default=20, help="size of the XML in MB")
    parser.add_argument("--rounds", type=int, default=3, help="number of turns")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="folder for the files, which are removed")
    return parser.parse_args()


def write_dump(path: str, mb: float) -> float:
    """Writes a dump of articles with the markup of Wikipedia's; returns its size in MB."""
    rng, size, number = random.Random(1), 0, 0
    with bz2.open(path, "wt", encoding="utf-8") as file:
        size += file.write(_HEAD)
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
        parts += [
            " ".join(sentence(rng) for _ in range(rng.randint(3, 8)))
            for _ in range(rng.randint(1, 4))
        ]
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


def ours(flags: argparse.Namespace, workers: int) -> dict:
    """Times this project, with `workers` worker processes."""
    from albert.corpus.conversion import Options, make_corpus
    from albert.corpus.sources import find_sources

    output = os.path.join(flags.folder, "text")
    sources = find_sources(os.path.join(flags.folder, "dump.xml.bz2"), output)

    def work() -> int:
        return make_corpus(sources, output, Options(), workers)["totals"]["kept"]

    result = measured(work, flags.mb)
    shutil.rmtree(output)
    return result


def plain(flags: argparse.Namespace) -> dict:
    """Times the plain way."""
    import mwparserfromhell

    def work() -> int:
        kept, name = 0, "{http://www.mediawiki.org/xml/export-0.11/}"
        with (
            bz2.open(os.path.join(flags.folder, "dump.xml.bz2")) as file,
            open(os.path.join(flags.folder, "plain.txt"), "w", encoding="utf-8") as out,
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


# The ways to measure.
WAYS = {
    "plain, one process": plain,
    "one process": lambda flags: ours(flags, 1),
    "2 workers": lambda flags: ours(flags, 2),
}


def print_table(rounds: list[dict[str, dict]]) -> None:
    """Prints MB of XML a second, and the ratio to the plain way of the same turn; medians."""
    print(
        f"{'':<20}{'MB':>8}{'articles':>10}{'MB/s':>8}{'times plain':>13}"
        f"{'memory':>10}{'worker':>10}"
    )
    for way in WAYS:
        found = [one[way] for one in rounds]
        seconds = statistics.median(one["seconds"] for one in found)
        ratio = statistics.median(
            one["plain, one process"]["seconds"] / one[way]["seconds"] for one in rounds
        )
        own, worker = (
            f"{max(mb):.0f} MB" for mb in zip(*(one["memory"] for one in found), strict=True)
        )
        print(
            f"{way:<20}{found[0]['mb']:>8.1f}{found[0]['records']:>10}"
            f"{found[0]['mb'] / seconds:>8.2f}{ratio:>13.2f}{own:>10}{worker:>10}"
        )


if __name__ == "__main__":
    main()
