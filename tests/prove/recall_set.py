"""The evaluation set of the memory: 1,000 notes of a harbour town, and 200 queries, each with the one note it means.

All of it is made from the word lists below by one seeded generator, so it is the same everywhere. A note has three
sentences; who, what and where are one triple of its own, while each pair of them is shared with other notes, and every
sentence's pattern with some hundred. A query is one of:

- *keyword*: three or four words of the note, in any order;
- *near-duplicate*: one sentence of the note retold: words left out, exchanged for others, some moved;
- *misspelt*: keywords with one typing error in each word of five letters or more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

DOCUMENTS, QUERIES, SEED = 1_000, 200, 3
FORMS = ("keyword", "near-duplicate", "misspelt")


def _words(text: str) -> list[str]:
    return text.split()


PEOPLE = _words(
    """Adriana Bartholomew Casimir Delphine Emerson Fiorella Gregorio Hildegard Ignatius Josephine Katarzyna
Leopold Marguerite Nathaniel Octavia Percival Quentin Rosalind Sebastian Theodora Ulrich Valentina Wilhelmina Xavier
Yolanda Zachary Anselm Beatrix Cordelia Dietrich"""
)
THINGS = _words(
    """compressor lantern telescope generator turbine accordion bicycle windlass barometer typewriter greenhouse
locomotive wheelbarrow chandelier excavator thermostat microscope parachute sailcloth transformer tapestry harpoon
saxophone conveyor carburettor manuscript dictionary calendar inventory blueprint certificate timetable invoice
propeller gearbox radiator antenna battery cupboard staircase"""
)
PLACES = _words(
    """warehouse lighthouse cathedral shipyard marketplace orchard observatory quarry boathouse brewery library
cannery museum railway pharmacy vineyard monastery barracks tannery workshop foundry aquarium windmill courthouse
hospital printery sawmill granary theatre fortress"""
)
VERBS = _words(
    """repaired inspected borrowed replaced measured painted dismantled delivered photographed registered insured
polished sealed weighed auctioned catalogued wrapped tested lowered hoisted"""
)
STATES = _words(
    """rusty fragile borrowed brass crooked precious broken waterproof enormous forgotten silent portable wooden
foreign dented spotless magnetic hollow expensive narrow"""
)
TIMES = _words(
    """January February March April May June July August September October November December midsummer
Easter harvest Christmas"""
)
REASONS = _words(
    """storm inspection anniversary flood strike festival insurance burglary renovation inheritance quarantine
election regatta wedding epidemic audit"""
)
SECOND = (
    "Before {time} it had been {state} because of the {reason}.",
    "The {reason} in {time} left it {state} and nobody could explain why.",
    "It is still {state}, and since the {reason} the key is kept until {time}.",
    "After the {reason} it was called {state}, which changed in {time}.",
)
THIRD = (
    "Ask {other} for the receipt when the {place} is closed.",
    "{other} signed for it and keeps the papers near the {place}.",
    "A copy went to {other}, who wanted the {thing} back.",
    "{other} objected, but the bill for the {thing} was paid.",
)
FIRST = (
    "{person} {verb} the {thing} at the {place} in {time}.",
    "The {thing} of the {place} was {verb} by {person}.",
    "At the {place}, {person} {verb} a {state} {thing}.",
    "Note by {person}: the {thing} was {verb} and stays at the {place}.",
)


@dataclass(frozen=True, slots=True)
class Note:
    """One document: its text, and what a keyword query is made of."""

    text: str
    sentences: tuple[str, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A query and the number of the note it means."""

    form: str
    text: str
    note: int


def make_set() -> tuple[list[Note], list[Query]]:
    """The notes and the queries, in a third each of the three forms."""
    rng = random.Random(SEED)
    triples = [(person, thing, place) for person in PEOPLE for thing in THINGS for place in PLACES]
    notes = [_note(rng, triple) for triple in rng.sample(triples, DOCUMENTS)]
    queries = []
    for number, target in enumerate(rng.sample(range(DOCUMENTS), QUERIES)):
        form = FORMS[number % len(FORMS)]
        queries.append(Query(form, _query(rng, form, notes[target]), target))
    return notes, queries


def _note(rng: random.Random, triple: tuple[str, str, str]) -> Note:
    person, thing, place = triple
    words = {
        "person": person,
        "thing": thing,
        "place": place,
        "verb": rng.choice(VERBS),
        "state": rng.choice(STATES),
        "time": rng.choice(TIMES),
        "reason": rng.choice(REASONS),
        "other": rng.choice([name for name in PEOPLE if name != person]),
    }
    sentences = tuple(rng.choice(patterns).format(**words) for patterns in (FIRST, SECOND, THIRD))
    return Note(" ".join(sentences), sentences, (thing, place, person, words["reason"]))


def _query(rng: random.Random, form: str, note: Note) -> str:
    if form == "near-duplicate":
        return _retold(rng, note.sentences[0])
    chosen = [*rng.sample(note.keywords[:3], 2 if form == "keyword" else 3), note.keywords[3]]
    rng.shuffle(chosen)
    return " ".join(chosen if form == "keyword" else [_misspelt(rng, word) for word in chosen])


def _retold(rng: random.Random, sentence: str) -> str:
    """A quarter of the words left out, a quarter exchanged, and two neighbours swapped."""
    words: list[str] = []
    for word in sentence.rstrip(".").split():
        fate = rng.random()
        if fate < 0.25:
            continue
        words.append(rng.choice(_ALL) if fate < 0.4 else word)
    if len(words) > 1:
        at = rng.randrange(len(words) - 1)
        words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


def _misspelt(rng: random.Random, word: str) -> str:
    """One letter left out, doubled, exchanged, or swapped with the next; never the first."""
    if len(word) < 5:
        return word
    at = rng.randrange(1, len(word) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at] + word[at:]
    if kind == 2:
        return word[:at] + rng.choice("aeioustrnl") + word[at + 1 :]
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _flat(lists: Sequence[Sequence[str]]) -> list[str]:
    return [word for words in lists for word in words]


_ALL = _flat((VERBS, STATES, TIMES, REASONS))
