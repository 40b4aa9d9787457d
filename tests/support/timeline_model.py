"""What a session's timeline means, in plain Python: a path is a list of things done, and its namespace is what comes of
executing its statements from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.core.execution import WORKER_DIED
from tests.support.timeline_space import OWN, REFUSED, Ask, Outcome, Space
from tests.support.timeline_world import World

_ACTS: Final = ("read", "write", "open to write")
"""What ends a dry replay."""


@dataclass(frozen=True)
class Step:
    """A statement with the execution of it that counts."""

    index: int
    source: str
    outcome: Outcome
    without: frozenset[int] = frozenset()
    """Which earlier ones were left out when it ran."""
    by_model: bool = False
    omitted: bool = False
    stale: bool = False
    """It runs again behind a live replay, on other values."""

    @property
    def is_stopped(self) -> bool:
        return self.outcome.status in ("cancelled", "timeout")

    @property
    def ended_its_worker(self) -> bool:
        """It has left nothing then, and only what acts runs it again."""
        return self.outcome.exception == WORKER_DIED

    @property
    def acts(self) -> bool:
        """Whether it asks a tool for something, or writes by itself."""
        return self.outcome.exception.startswith(REFUSED) or any(ask.what in _ACTS for ask in self.outcome.asked)

    @property
    def may_act(self) -> bool:
        """Whether it would have to do with something outside on other values, if not on those that it had."""
        return any(word in self.source for word in ("open", "import", "write", "del"))


@dataclass(frozen=True)
class Ticked:
    """Views that run have caught up with these contents; None where nobody can say with which.

    A view of another file was left out at that time: once it is taken in again it sees whatever was seen of it last.
    """

    files: Mapping[str, str] | None


@dataclass(frozen=True)
class Ran:
    """A statement ran for the first time; `disk` is what was there when it had."""

    step: Step
    disk: Mapping[str, str]


@dataclass(frozen=True)
class Replayed:
    """A live replay of `first` to `last` has completed, `steps` with the ticks ahead of them."""

    first: int
    last: int
    steps: tuple[Step | Ticked, ...]


@dataclass(frozen=True)
class Omitted:
    """A statement was left out, or taken in again."""

    index: int
    omitted: bool


Path = tuple[Ran | Ticked | Replayed | Omitted, ...]


def parts_of(path: Path) -> list[Step | Ticked]:
    """What the namespace at the end of a path is made of."""
    parts: list[Step | Ticked] = []
    for item in path:
        match item:
            case Ran(step=step):
                parts.append(step)
            case Ticked():
                parts.append(item)
            case Omitted(index=index, omitted=omitted):
                parts = [replace(each, omitted=omitted) if _number(each) == index else each for each in parts]
            case Replayed():
                parts = _replayed(parts, item)
    return parts


def _replayed(parts: Sequence[Step | Ticked], replay: Replayed) -> list[Step | Ticked]:
    place = next((place for place, each in enumerate(parts) if _number(each) >= replay.first), len(parts))
    behind = [each for each in parts[place:] if _number(each) > replay.last]
    ran = {_number(each) for each in replay.steps}
    passed_over = [each for each in parts[place:] if isinstance(each, Step) and each.index not in ran]
    # What one that was stopped had left is gone.
    within = [replace(each, stale=each.stale or each.is_stopped) for each in passed_over if each.index <= replay.last]
    new = list(replay.steps)
    for step in within:
        place_of = next((at for at, each in enumerate(new) if _number(each) > step.index), len(new))
        new.insert(place_of, step)
    stale = [replace(each, stale=True) for each in behind if isinstance(each, Step)]
    return [*parts[:place], *new, *stale, *([Ticked(None)] if stale else [])]


def _number(part: Step | Ticked) -> int:
    """Of a statement; 0 of a tick."""
    return part.index if isinstance(part, Step) else 0


def steps_of(path: Path) -> list[Step]:
    """The statements alone."""
    return [part for part in parts_of(path) if isinstance(part, Step)]


def left_out(steps: Sequence[Step], before: int) -> frozenset[int]:
    """Which statements ahead of that one are left out."""
    return frozenset(step.index for step in steps if step.omitted and step.index < before)


def count_of(path: Path) -> int:
    """How many statements there are."""
    return sum(isinstance(item, Ran) for item in path)


def cut(path: Path, statement: int) -> Path:
    """As far as the result of that statement."""
    return path[: _place(path, statement) + 1] if statement else ()


def disk_of(path: Path) -> Mapping[str, str]:
    """What was on the disk when the statement had ended with which the path ends."""
    return path[-1].disk if path and isinstance(path[-1], Ran) else {}


def before(path: Path, statement: int) -> Path:
    """As far as what comes before that statement's call."""
    return path[: _place(path, statement)]


def _place(path: Path, statement: int) -> int:
    return [place for place, item in enumerate(path) if isinstance(item, Ran)][statement - 1]


def space_of(path: Path, world: World) -> Space:
    """The namespace at the end of the path."""
    space = Space(world)
    for _ in played(space, parts_of(path)):
        pass
    return space


def played(space: Space, parts: Sequence[Step | Ticked]) -> Iterator[tuple[Step, Outcome]]:
    """Executes the statements that are in the namespace, one by one, with the ticks in between."""
    for part in parts:
        if isinstance(part, Ticked):
            space.tick(part.files)
        elif not part.omitted and not part.ended_its_worker and not (part.is_stopped and part.stale):
            yield part, space.stopped(part.outcome) if part.is_stopped else space.again(part.source, part.outcome)


def differs(before: Outcome, after: Outcome) -> bool | None:
    """Whether something came out differently; None where that cannot be told.

    It cannot where a statement bound a name to what it held before: whether that is a change depends on the object. Nor
    where a view was made of other contents, because what a node knows already is not read again; nor where something
    else was written, because a file may have held that already.
    """
    if (before.status, before.exception, before.stdout) != (after.status, after.exception, after.stdout):
        return True
    then, now = (_answers(each, "read") for each in (before, after))
    if any(then[path] != now[path] for path in then.keys() & now.keys()):
        return True
    names = before.bound.keys() | after.bound.keys()
    if before.deleted != after.deleted or any(before.after.get(name) != after.after.get(name) for name in names):
        return True
    is_uncertain = before.bound.keys() != after.bound.keys() or any(
        _answers(before, what) != _answers(after, what) for what in ("view", "write", "open to write")
    )
    # What a generator has yet to give is not shown, and another source makes another one.
    hides = any(before.after.get(name, "").startswith("generator") for name in names)
    return None if is_uncertain or hides else False


def _answers(outcome: Outcome, what: str) -> dict[str, str]:
    return {ask.argument: ask.answer for ask in outcome.asked if ask.what == what}


def differing(path: Path, world: World) -> tuple[set[int], set[int]]:
    """The statements that come out differently when they run again now as recorded: certainly, and possibly."""
    certain: set[int] = set()
    possible: set[int] = set()
    steps = steps_of(path)
    for step, outcome in played(Space(world), parts_of(path)):
        if step.is_stopped:
            continue
        is_otherwise = left_out(steps, step.index) != step.without
        differs_now = differs(step.outcome, outcome) if step.stale or is_otherwise else False
        if any(_is_otherwise(ask, world) for ask in step.outcome.asked) or (step.stale and differs_now):
            certain.add(step.index)
        elif differs_now is not False:
            possible.add(step.index)
    return certain, possible


def _is_otherwise(ask: Ask, world: World) -> bool:
    match ask.what:
        case "open":
            return world.files[ask.argument] != ask.answer
        case what:
            return what in OWN
