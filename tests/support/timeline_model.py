"""What a session's timeline means, in plain Python: a path is a list of things done, and its namespace is what comes of
executing its statements from scratch.

A statement is executed with what it was answered then. So nothing in here is rebuilt, kept, or compared by digests; it
is what a random session is held to. Used by the tests of random timelines.
"""

from __future__ import annotations

import builtins
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, Final, Literal

Status = Literal["ok", "error", "cancelled", "timeout"]
How = Literal["now", "recorded"]
"""Acting on the disk; or answered as it was the first time, with nothing written."""

OWN: Final = ("open", "open to write", "urandom")
"""What a statement asks without a tool, so that nothing of it is recorded."""
BEGUN: Final = "begun"
STOPS: Final = f"; print('{BEGUN}', end='')\nwhile True: pass"
_LOOP: Final = "\nwhile True: pass"
REFUSED: Final = "ReplayEffect"
_NOT_SHOWN: Final = ("read", "write", "__builtins__", "_")


class RefusedError(Exception):
    """A statement asked for something that nobody may do for it."""


@dataclass(frozen=True)
class Ask:
    """What a statement asked of a tool, or looked at by itself, and what it got."""

    what: str
    argument: str
    answer: str


@dataclass(frozen=True)
class Outcome:
    """What one execution came to. `bound` are the names that it left with another content, `after` all names."""

    status: Status
    exception: str
    stdout: str
    bound: Mapping[str, str]
    after: Mapping[str, str]
    asked: tuple[Ask, ...]


@dataclass(frozen=True)
class Step:
    """A statement with the execution of it that counts."""

    index: int
    source: str
    outcome: Outcome
    without: frozenset[int] = frozenset()
    """Which earlier ones were left out when it ran."""
    omitted: bool = False
    stale: bool = False
    """It runs again behind a live replay, on other values."""

    @property
    def is_stopped(self) -> bool:
        return self.outcome.status in ("cancelled", "timeout")

    @property
    def acts(self) -> bool:
        """Whether it asks a tool for something, or writes by itself: what ends a dry replay."""
        return self.outcome.exception.startswith(REFUSED) or any(
            ask.what in ("read", "write", "open to write") for ask in self.outcome.asked
        )

    @property
    def is_its_own(self) -> bool:
        """Whether it looks at something, or writes, that no tool has recorded."""
        return any(ask.what in OWN for ask in self.outcome.asked)

    @property
    def may_act(self) -> bool:
        """Whether it would have to do with something outside on other values, if not on those that it had."""
        return any(word in self.source for word in ("open", "import", "write", "del"))


@dataclass(frozen=True)
class Ran:
    """A statement ran for the first time; `disk` is what was there when it had."""

    step: Step
    disk: Mapping[str, str]


@dataclass(frozen=True)
class Replayed:
    """A live replay of `first` to `last` has completed."""

    first: int
    last: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Omitted:
    """A statement was left out, or taken in again."""

    index: int
    omitted: bool


Path = tuple[Ran | Replayed | Omitted, ...]


def steps_of(path: Path) -> list[Step]:
    """What the namespace at the end of a path is made of."""
    steps: list[Step] = []
    for item in path:
        match item:
            case Ran(step=step):
                steps.append(step)
            case Omitted(index=index, omitted=omitted):
                steps = [replace(each, omitted=omitted) if each.index == index else each for each in steps]
            case Replayed(first=first, last=last, steps=new):
                within = [*new, *(each for each in steps if first <= each.index <= last and each.omitted)]
                steps = [
                    *(each for each in steps if each.index < first),
                    *sorted(within, key=lambda each: each.index),
                    *(replace(each, stale=True) for each in steps if each.index > last),
                ]
    return steps


def left_out(steps: Sequence[Step], before: int) -> frozenset[int]:
    """Which statements ahead of that one are left out."""
    return frozenset(step.index for step in steps if step.omitted and step.index < before)


def count_of(path: Path) -> int:
    """How many statements there are."""
    return sum(isinstance(item, Ran) for item in path)


def cut(path: Path, statement: int) -> Path:
    """As far as the result of that statement."""
    if not statement:
        return ()
    place = [place for place, item in enumerate(path) if isinstance(item, Ran)][statement - 1]
    return path[: place + 1]


def before(path: Path, statement: int) -> Path:
    """As far as what comes before that statement's call."""
    place = [place for place, item in enumerate(path) if isinstance(item, Ran)][statement - 1]
    return path[:place]


@dataclass
class World:
    """The disk that statements act on: files that only others write, and those that only statements do."""

    files: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def written(self) -> dict[str, str]:
        return {name: text for name, text in self.files.items() if name.startswith("out-")}

    def put_back(self, written: Mapping[str, str]) -> None:
        for name in self.written:
            del self.files[name]
        self.files |= written


class Space:
    """A namespace in which statements are executed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._how: How = "now"
        self._left: list[Ask] = []
        self._asked: list[Ask] = []
        self._drawn = ""
        self._is_edit = False
        own = {**vars(builtins), "open": self._open, "__import__": self._import}
        self.names: dict[str, Any] = {"__builtins__": own, "read": self._read, "write": self._write}

    def shown(self) -> dict[str, str]:
        """What each name is bound to, as text."""
        return {name: shown(value) for name, value in sorted(self.names.items()) if name not in _NOT_SHOWN}

    def again(self, step: Step) -> Outcome:
        """Executes a statement with what it was answered. Of one that was stopped, what it had changed is known."""
        if step.is_stopped:
            self.names |= {name: literal_eval(text) for name, text in step.outcome.bound.items()}
            return step.outcome
        return self._execute(step.source, step.outcome.status, "recorded", step.outcome.asked)

    def now(self, source: str, status: Status, drawn: str) -> Outcome:
        """Executes a statement that acts on the world; `drawn` is what was drawn for it at random."""
        self._drawn = drawn
        return self._execute(source, status, "now", ())

    def instead(self, source: str, status: Status, drawn: str, recorded: Sequence[Ask]) -> Outcome:
        """Executes one that stands in the place of another, which was given those answers, and may not act."""
        self._drawn, self._is_edit = drawn, True
        try:
            return self._execute(source, status, "now", recorded)
        finally:
            self._is_edit = False

    def _execute(self, source: str, status: Status, how: How, recorded: Sequence[Ask]) -> Outcome:
        before = self.shown()
        self._how, self._left, self._asked = how, list(recorded), []
        printed, exception = StringIO(), ""
        with redirect_stdout(printed):
            try:
                exec(compile(source.removesuffix(_LOOP), "<model>", "exec"), self.names)
            except RefusedError as error:
                exception = f"{REFUSED}: {error}"
            except Exception as error:
                exception = f"{type(error).__name__}: {error}"
        after = self.shown()
        return Outcome(
            status=status if status in ("cancelled", "timeout") else "error" if exception else "ok",
            exception=exception,
            stdout=printed.getvalue(),
            bound={name: text for name, text in after.items() if before.get(name) != text},
            after=after,
            asked=tuple(self._asked),
        )

    # --- what statements ask ------------------------------------------------------------------------------------------

    def _read(self, path: str) -> str:
        return self._answered("read", path, lambda: self._world.files[path])

    def _write(self, path: str, text: str) -> None:
        def write() -> str:
            if self._is_edit:
                raise RefusedError("write")
            self._world.files[path] = text
            return ""

        self._answered("write", f"{path}={text}", write)

    def _open(self, path: str, mode: str = "r") -> Any:
        if mode == "r":
            return _Open(read=lambda: self._answered("open", path, lambda: self._world.files[path]))

        return _Open(land=lambda text: self._write(path, text))

    def _import(self, name: str, *_: object) -> Any:
        assert name in ("os", "pathlib"), name
        return _Module(lambda: self._answered("urandom", "", lambda: self._drawn), self._write_by_itself)

    def _write_by_itself(self, path: str, text: str) -> int:
        refused = Ask("refused", path, "")
        if self._is_edit or refused in self._left:
            self._asked.append(refused)
            raise RefusedError("open")
        if self._how == "now":
            self._world.files[path] = text
        self._asked.append(Ask("open to write", path, text))
        return len(text)

    def _answered(self, what: str, argument: str, act: Callable[[], str]) -> str:
        found = next((each for each in self._left if (each.what, each.argument) == (what, argument)), None)
        if found is not None:
            self._left.remove(found)
            answer = found.answer
        elif self._how == "recorded":
            raise RefusedError(what)
        else:
            answer = act()
        self._asked.append(Ask(what, argument, answer))
        return answer


class _Open:
    """A file that was opened: what is written lands when it is closed."""

    def __init__(self, read: Callable[[], str] | None = None, land: Callable[[str], None] | None = None) -> None:
        self.read = read
        self._land = land
        self._text = ""

    def write(self, text: str) -> int:
        self._text += text
        return len(text)

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *_: object) -> None:
        if self._land is not None:
            self._land(self._text)


class _Module:
    """`os` and `pathlib`, as far as a statement uses them."""

    def __init__(self, draw: Callable[[], str], write: Callable[[str, str], int]) -> None:
        self._draw = draw
        self._write = write
        self._path = ""

    def urandom(self, _: int) -> _Module:
        return self

    def hex(self) -> str:
        return self._draw()

    def Path(self, path: str) -> _Module:
        self._path = path
        return self

    def write_text(self, text: str) -> int:
        return self._write(self._path, text)


def shown(value: Any) -> str:
    """A value as text, without what differs between two processes: a function by what it gives."""
    if type(value).__name__ == "generator":
        frame = value.gi_frame
        return f"generator at {frame.f_locals.get('n') if frame else 'its end'}"
    return f"function of {value()}" if callable(value) else repr(value)


def namespace_of(path: Path, world: World) -> dict[str, str]:
    """What every name is bound to at the end of the path."""
    space = Space(world)
    for _ in played(space, steps_of(path)):
        pass
    return space.shown()


def played(space: Space, steps: Sequence[Step]) -> Iterator[Outcome]:
    """Executes the statements that are in the namespace, one by one."""
    for step in steps:
        if not step.omitted and not (step.is_stopped and step.stale):
            yield space.again(step)


def differs(before: Outcome, after: Outcome) -> bool | None:
    """Whether something came out differently; None where that cannot be told.

    It cannot where a statement bound a name to what it held before: whether that is a change depends on the object.
    """
    if (before.status, before.exception, before.stdout) != (after.status, after.exception, after.stdout):
        return True
    reads = [{ask.argument: ask.answer for ask in each.asked if ask.what == "read"} for each in (before, after)]
    if any(reads[0][path] != reads[1][path] for path in reads[0].keys() & reads[1].keys()):
        return True
    names = before.bound.keys() | after.bound.keys()
    if any(before.after.get(name) != after.after.get(name) for name in names):
        return True
    return None if before.bound.keys() != after.bound.keys() else False


def differing(path: Path, world: World) -> tuple[set[int], set[int]]:
    """The statements that come out differently when they run again now as recorded: certainly, and possibly."""
    certain: set[int] = set()
    possible: set[int] = set()
    space = Space(world)
    steps = steps_of(path)
    for step in steps:
        if step.omitted or step.is_stopped:
            continue
        outcome = space.again(step)
        is_otherwise = left_out(steps, step.index) != step.without
        differs_now = differs(step.outcome, outcome) if step.stale or is_otherwise else False
        if any(_is_otherwise(ask, world) for ask in step.outcome.asked) or (step.stale and differs_now):
            certain.add(step.index)
        elif differs_now is not False:
            possible.add(step.index)
    return certain, possible


def _is_otherwise(ask: Ask, world: World) -> bool:
    return ask.what in OWN and (ask.what != "open" or world.files[ask.argument] != ask.answer)
