"""Draws mutants of the rooms, knows which are equivalent, and counts how they ended."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from tests.mutants.places import RARE, Place, mutate, places
from tests.mutants.rooms import ROOMS, ROOT, Room

Verdict = Literal["killed", "survived", "timed out", "equivalent"]
VERDICTS: Final[Sequence[Verdict]] = ("killed", "survived", "timed out", "equivalent")

EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")
MOST_EQUIVALENT: Final = 0.08
"""Of the drawn places."""


class Mutant(NamedTuple):
    room: str
    module: str
    place: Place

    @property
    def name(self) -> str:
        return f"{self.module}:{self.place.first_line} {self.place.kind}: {self.place.change}"


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change that no test can notice, and why."""

    module: str
    function: str
    change: str
    """As `Place.change` writes it."""
    why: str

    def is_of(self, mutant: Mutant) -> bool:
        return (self.module, self.function, self.change) == (
            mutant.module,
            mutant.place.function,
            mutant.place.change,
        )


class Result(NamedTuple):
    mutant: Mutant
    verdict: Verdict
    tests: int
    seconds: float
    output: str


def equivalents(path: Path = EQUIVALENT) -> list[Equivalent]:
    return msgspec.convert(tomllib.loads(path.read_text("utf-8")).get("equivalent", []), list[Equivalent])


def stale(rows: Sequence[Equivalent], root: Path = ROOT) -> list[Equivalent]:
    """Return the rows whose place is gone, or whose reason is missing."""
    modules = {module for room in ROOMS for module in room.sources(root)} & {row.module for row in rows}
    known = [Mutant("", module, place) for module in sorted(modules) for place in places((root / module).read_bytes())]
    return [row for row in rows if not row.why.endswith(".") or not any(row.is_of(mutant) for mutant in known)]


def draw(room: Room, seed: int, count: int, root: Path = ROOT) -> list[Mutant]:
    """Return `count` places of a room, each as likely as the others, but with at least one of each rare kind."""
    sources = {module: (root / module).read_bytes() for module in room.sources(root)}
    mutants = [Mutant(room.name, module, place) for module, source in sources.items() for place in places(source)]
    random.Random(f"{seed} {room.name}").shuffle(mutants)
    rare = [next((each for each in mutants if each.place.kind == kind), None) for kind in RARE]
    order = dict.fromkeys(mutant for mutant in (*rare, *mutants) if mutant is not None)
    return list(islice((each for each in order if mutate(sources[each.module], each.place) is not None), count))


def found_again(mutants: Sequence[Mutant], root: Path = ROOT) -> list[Mutant]:
    """Return the same changes in the sources of today, without those that are gone."""
    sources = {module: places((root / module).read_bytes()) for module in {mutant.module for mutant in mutants}}
    found: list[Mutant] = []
    for mutant in mutants:
        old = mutant.place
        same = [each for each in sources[mutant.module] if (each.function, each.change) == (old.function, old.change)]
        if same:
            found.append(mutant._replace(place=min(same, key=lambda each: abs(each.first_line - old.first_line))))
    return found


def table(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    """Return the rows of a table of Markdown: how many mutants of each room ended how."""
    yield f"| room | tried | {' | '.join(VERDICTS)} |"
    yield "| --- " * (len(VERDICTS) + 2) + "|"
    for name in (*names, "all"):
        counts = count([result for result in results if name in (result.mutant.room, "all")])
        yield f"| {name} | {sum(counts.values())} | {' | '.join(str(counts[verdict]) for verdict in VERDICTS)} |"


def count(results: Sequence[Result]) -> Mapping[Verdict, int]:
    counts = dict.fromkeys(VERDICTS, 0)
    for result in results:
        counts[result.verdict] += 1
    return counts
