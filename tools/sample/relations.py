"""The relations that the sample's articles state and ask about, with their words and values.

A relation assigns a thing a value of some type. Its clauses state the relation, and its questions
ask about it. They share no content words, so matching words does not find the answer. Its topics
repeat the questions' words without the value. Some types (persons, years) have two relations, so
that only the words around a value show which relation it belongs to.
"""

from __future__ import annotations

from typing import NamedTuple


class Relation(NamedTuple):
    """A statement that can be made about a thing: ways to state, to ask for and to mention it.

    `{v}` is the value in clauses, which lack the subject, and `{e}` the thing.
    """

    value_type: str
    clauses: tuple[str, ...]
    questions: tuple[str, ...]
    topics: tuple[str, ...]


RELATIONS = (
    Relation(
        "person",
        ("was put up by {v}", "rose under the hands of {v}", "came from the workshop of {v}"),
        ("Who built {e}?", "By whom was {e} constructed?", "What was the builder of {e} called?"),
        ("who built {e}", "the builder of {e}"),
    ),
    Relation(
        "person",
        ("was paid for by {v}", "was a gift from {v}", "swallowed the savings of {v}"),
        ("Who funded {e}?", "Whose money made {e} possible?", "Who met the cost of {e}?"),
        ("who funded {e}", "whose money made {e} possible"),
    ),
    Relation(
        "year",
        ("dates from {v}", "was ready in {v}", "has been in use since {v}"),
        ("When was {e} completed?", "In what year was {e} finished?", "How old is {e}?"),
        ("when {e} was completed", "how old {e} is"),
    ),
    Relation(
        "year",
        ("burned in {v}", "went up in flames in {v}", "was reduced to ashes in {v}"),
        (
            "When did a fire destroy {e}?",
            "In what year did {e} fall victim to a fire?",
            "When was {e} lost to fire?",
        ),
        ("the fire that destroyed {e}", "when {e} was lost to fire"),
    ),
    Relation(
        "length",
        ("rises {v} into the air", "measures {v} from foot to crown", "reaches {v} upward"),
        ("How tall is {e}?", "What is the height of {e}?", "How high is {e}?"),
        ("how tall {e} is", "the height of {e}"),
    ),
    Relation(
        "weight",
        ("brings {v} to the scales", "presses on its base with {v}", "could be balanced by {v}"),
        ("How heavy is {e}?", "What does {e} weigh?", "What is the weight of {e}?"),
        ("how heavy {e} is", "the weight of {e}"),
    ),
    Relation(
        "material",
        ("was cut from {v}", "consists of {v} throughout", "shows {v} on all sides"),
        (
            "What is {e} made of?",
            "Which material was used for {e}?",
            "Of what substance is {e} made?",
        ),
        ("what {e} is made of", "the material of {e}"),
    ),
    Relation(
        "colour",
        ("gleams in {v}", "was painted {v}", "has kept its {v} coat"),
        (
            "What colour is {e}?",
            "Which hue does {e} have?",
            "What does the colour of {e} look like?",
        ),
        ("what colour {e} is", "the hue of {e}"),
    ),
    Relation(
        "dish",
        ("serves {v} to its guests", "is known for its {v}", "smells of {v}"),
        (
            "What do visitors eat at {e}?",
            "Which food can be bought at {e}?",
            "What meal do people come to {e} for?",
        ),
        ("what visitors eat at {e}", "the food at {e}"),
    ),
    Relation(
        "animal",
        ("shelters {v}", "is home to {v}", "was left to {v}"),
        ("Which animals live in {e}?", "What creatures nest in {e}?", "Which beasts inhabit {e}?"),
        ("which animals live in {e}", "the creatures that inhabit {e}"),
    ),
    Relation(
        "season",
        ("is crowded in {v}", "opens its gates in {v}", "rings with songs in {v}"),
        (
            "At what time of year is {e} celebrated?",
            "When is the feast of {e}?",
            "In which season do people visit {e}?",
        ),
        ("the feast of {e}", "at what time of year {e} is celebrated"),
    ),
    Relation(
        "place",
        ("looks down on {v}", "stands a short walk from {v}", "belongs to {v}"),
        ("Where is {e}?", "Near which settlement does {e} lie?", "What is {e} close to?"),
        ("where {e} is", "the settlement near which {e} lies"),
    ),
)

# Kinds of things; later sentences refer to the thing by this noun.
NOUNS = (
    "tower",
    "mill",
    "bridge",
    "lighthouse",
    "gate",
    "hall",
    "barn",
    "fountain",
    "chapel",
    "inn",
)

# Sentences with two, three and no facts; `{s}` is the thing in full, `{t}` a reference to it.
PAIRS = (
    "{s} {a} and {b}.",
    "{s}, which {a}, {b}.",
    "It is said that {t} {a} and {b}.",
    "While {t} {a}, it {b}.",
)
TRIPLES = (
    "{s} {a}, {b} and {c}.",
    "{s}, which {a} and {b}, {c}.",
    "It is said that {t} {a}, {b} and {c}.",
)
ASIDES = (
    "Guides are asked about {x} and {y}.",
    "Old books are silent about {x} and {y}.",
    "People like to argue about {x} and {y}.",
)

# Persons have a first name and an invented family name; places have an invented name. The endings
# distinguish them from names of things.
FIRST_NAMES = (
    *("Ada", "Bram", "Cora", "Dirk", "Edda", "Finn", "Greta", "Hugo", "Ida", "Jonas", "Kaja"),
    *("Lars", "Mira", "Nils", "Olga", "Piet"),
)
FAMILY_ENDINGS = ("son", "man", "berg")
TOWN_ENDINGS = ("ton", "ham", "wick")
TITLES = ("Master ", "Captain ", "old ", "young ")
SETTLEMENTS = ("the village of ", "the hamlet of ", "the port of ")
# First and second words of two-word values; the second word on its own is also right.
TWO_WORDS = {
    "material": (
        ("polished", "rough", "solid", "cheap"),
        ("oak", "granite", "copper", "slate", "cedar", "marble", "iron", "bronze", "clay", "glass"),
    ),
    "colour": (
        ("dark", "pale", "bright", "dull"),
        ("red", "blue", "green", "yellow", "white", "black", "brown", "violet", "orange", "grey"),
    ),
    "dish": (
        ("plum", "onion", "barley", "apple", "honey", "mushroom", "cabbage", "walnut"),
        ("soup", "pies", "dumplings", "bread", "cakes", "stew", "pancakes", "porridge"),
    ),
    "animal": (
        ("shy", "noisy", "tame", "lazy"),
        ("owls", "goats", "bats", "swallows", "hares", "foxes", "storks", "cats", "toads", "geese"),
    ),
    "season": (
        ("early", "late"),
        ("spring", "summer", "autumn", "winter", "March", "May", "June", "August", "October"),
    ),
}
UNITS = {"length": ("metres", "feet", "yards"), "weight": ("tons", "hundredweight", "pounds")}
_HEADS = (
    *("b", "br", "d", "dr", "f", "g", "gr", "h", "j", "k", "kr", "l", "m", "n", "p", "r", "s"),
    *("st", "t", "tr", "v", "w", "z"),
)
SYLLABLES = tuple(
    head + vowel + tail for head in _HEADS for vowel in "aeiou" for tail in ("", "l", "n", "r", "s")
)
