"""Random object graphs, changed through random paths: what the diff says, against a slow comparison of all names.

The reference freezes every name's value before and after each statement, by plain recursion, without ids or digests.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from types import FunctionType
from typing import Any, Final

import numpy as np
import pytest

from tests.support.watched import Space

NAMES: Final = tuple(f"n{number}" for number in range(9))
PRELUDE: Final = """
import numpy as np
from collections import OrderedDict, deque
class Box:
    def __init__(self, **held): self.__dict__.update(held)
    def put(self, value): self.last = value
class Slots:
    __slots__ = ("left", "right")
class Rows(list):
    pass
def closure(held):
    def get(): return held
    return get
def put(target, value):
    if isinstance(target, (list, deque)): target.append(value)
def first_of(target):
    for each in target: return each
"""


def frozen(value: Any, seen: dict[int, int] | None = None) -> Any:
    """The content as plain tuples: mutable parts by the order of their first visit, sets and dicts without order."""
    seen = {} if seen is None else seen
    kind = type(value)
    if value is None or kind in (int, float, str, bool, bytes, complex):
        return kind.__name__, repr(value)
    if kind is tuple:
        return "tuple", tuple(frozen(each, seen) for each in value)
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    return kind.__name__, frozen_items(value, seen), frozen_attributes(value, seen)


def frozen_items(value: Any, seen: dict[int, int]) -> Any:
    match value:
        case set():
            return tuple(sorted(repr(frozen(each)) for each in value))
        case dict():
            keys = value if isinstance(value, OrderedDict) else sorted(value, key=lambda key: repr(frozen(key)))
            return tuple((frozen(key, seen), frozen(value[key], seen)) for key in keys)
        case list() | deque() | bytearray():
            return tuple(frozen(each, seen) for each in value)
        case np.ndarray():
            return str(value.dtype), value.shape, frozen(value.ravel().tolist())
        case FunctionType():
            return tuple(frozen(cell.cell_contents, seen) for cell in value.__closure__ or ())
        case _:
            return None


def frozen_attributes(value: Any, seen: dict[int, int]) -> Any:
    names = [*getattr(value, "__dict__", ()), *(name for name in ("left", "right") if type(value).__name__ == "Slots")]
    held = [name for name in sorted(names) if hasattr(value, name)]
    return tuple((name, frozen(getattr(value, name), seen)) for name in held)


class Author:
    """Writes random statements for a namespace: it looks at what is there, but changes nothing itself."""

    def __init__(self, seed: int, space: Space) -> None:
        self.random = random.Random(seed)
        self.space = space

    def bound(self) -> list[str]:
        return [name for name in NAMES if name in self.space.names]

    def path(self) -> tuple[str, Any]:
        """An expression for some object in some name, and the object."""
        name = self.random.choice(self.bound())
        expression, value = name, self.space.names[name]
        for _ in range(self.random.randint(0, 4)):
            steps = self.steps(value)
            if not steps:
                break
            step, value = self.random.choice(steps)
            expression = step.format(expression)
        return expression, value

    def steps(self, value: Any) -> list[tuple[str, Any]]:
        match value:
            case dict():
                return [(f"{{}}[{key!r}]", item) for key, item in value.items() if type(key) in (int, str)]
            case list() | tuple() | deque():
                return [(f"{{}}[{place}]", item) for place, item in enumerate(value)]
            case np.ndarray():
                return []
            case FunctionType():
                return [("{}()", value())]
            case _ if hasattr(value, "__dict__"):
                return [(f"{{}}.{name}", item) for name, item in vars(value).items()]
            case _ if type(value).__name__ == "Slots":
                held = [name for name in ("left", "right") if hasattr(value, name)]
                return [(f"{{}}.{name}", getattr(value, name)) for name in held]
            case _:
                return []

    def atom(self) -> str:
        return repr(self.random.choice([0, 1, True, 2.5, "a", "b" * 20, None, b"x", 10**20, -0.0]))

    def value(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.25:
            return self.path()[0] if self.bound() and self.random.random() < 0.6 else self.atom()
        inner = [self.value(depth - 1) for _ in range(self.random.randint(0, 3))]
        joined = ", ".join(inner)
        pairs = ", ".join(f"{self.random.choice('abc')!r}: {each}" for each in inner)
        named = ", ".join(f"{name}={each}" for name, each in zip("abc", inner, strict=False))
        return self.random.choice([
            f"[{joined}]", f"[{joined}]", f"{{{pairs}}}", f"OrderedDict({{{pairs}}})", f"deque([{joined}])",
            f"({joined}{',' if inner else ''})", f"Box({named})", f"Rows([{joined}])", "Slots()",
            f"closure({inner[0] if inner else None})", f"{{{self.random.randint(0, 9)}, 'a', (1, 2)}}",
            "bytearray(b'ab')", "np.arange(6)", "float('nan')",
        ])  # fmt: skip

    def mutation(self) -> str:
        """A statement that may change one object in place."""
        for _ in range(20):
            where, value = self.path()
            change = self.change(where, value)
            if change:
                return change
        return "pass"

    def change(self, where: str, value: Any) -> str:
        new, pick = self.value(1), self.random.choice
        match value:
            case np.ndarray():
                return pick([f"{where}[0] += 1", f"{where}[:2] = 7", f"{where}.sort()"]) if len(value) else ""
            case list():
                return pick([
                    f"{where}.append({new})", f"{where}[:1] = []", f"{where}.reverse()", f"put({where}, {new})",
                    f"{where}[:] = list({where})",
                    f"t = {where}\nt.append(1)\ndel t", f"{where}.append(1)\n{where}.pop()",
                    f"{where}.extend([1, 'x'])", f"getattr({where}, 'clear')()",
                ])  # fmt: skip
            case dict():
                key = repr(pick("abc"))
                moved = f"{where}[{key}] = {where}.pop({key}, None)" if eval(key) in value else "pass"
                return pick([f"{where}[{key}] = {new}", f"{where}.pop({key}, 0)", moved, f"{where}.update(a=1)"])
            case set():
                return pick([f"{where}.add(5)", f"{where}.discard(5)", f"{where}.add(99); {where}.discard(99)"])
            case deque():
                return pick([f"{where}.append({new})", f"{where}.rotate(1)"])
            case bytearray():
                return pick([f"{where}.append(7)", f"{where}[:1] = b'q'"])
            case _ if type(value).__name__ == "Box":
                return pick([f"{where}.{pick('abc')} = {new}", f"{where}.put({new})", f"{where}.__dict__.clear()"])
            case _ if type(value).__name__ == "Slots":
                return f"{where}.{pick(['left', 'right'])} = {new}"
            case _:
                return ""

    def statement(self) -> str:
        name, roll = self.random.choice(NAMES), self.random.random()
        if roll < 0.2 or not self.bound():
            return f"{name} = {self.value()}"
        if roll < 0.3:
            return f"{name} = {self.path()[0]}"
        if roll < 0.32:
            return f"del {self.random.choice(self.bound())}"
        if roll < 0.35:
            # The object was reached by way of a name that is not there any more, or is bound to something else.
            where, value = self.path()
            root = where[:2]
            return f"{self.change(where, value) or 'pass'}\n{self.random.choice([f'del {root}', f'{root} = 0'])}"
        if roll < 0.42:
            lines = "\n    ".join(self.mutation().splitlines())
            return f"def act():\n    {lines}\nact()"
        if roll < 0.47:
            return f"exec({self.mutation()!r})"
        if roll < 0.52:
            where, value = self.path()
            return f"{name} = {where}[1:]" if isinstance(value, np.ndarray) else f"print({where}, end='', file=sink)"
        if roll < 0.57:
            where, value = self.path()
            if isinstance(value, (list, deque)):
                return f"for each in list({where}):\n    put(each, 1)\ndel each" if value else "pass"
        return self.mutation()


def compare(seed: int, statements: int) -> None:
    space = Space()
    space.run(PRELUDE)
    space.run("class Sink:\n    def write(self, text): pass\nsink = Sink()")
    author = Author(seed, space)
    history: list[str] = []
    for _ in range(statements):
        before = {name: (id(space.names[name]), frozen(space.names[name])) for name in author.bound()}
        keep = [space.names[name] for name in author.bound()]
        source = author.statement()
        history.append(source)
        diff = space.run_to_its_end(source)
        del keep
        now = {name: (id(space.names[name]), frozen(space.names[name])) for name in author.bound()}
        told = f"seed {seed}, after {source!r}:\n" + "\n".join(history)
        assert {name for name in diff.added if name in NAMES} == now.keys() - before.keys(), told
        assert {name for name in diff.deleted if name in NAMES} == before.keys() - now.keys(), told
        for name in now.keys() & before.keys():
            if now[name][1] != before[name][1]:
                assert name in diff.changed, f"{name} is changed: {told}"
            elif now[name][0] == before[name][0]:
                assert name not in diff.changed, f"{name} is not changed: {told}"
        assert not diff.unknown, told


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_every_changed_name_is_shown_and_no_other(first: int) -> None:
    for seed in range(first, first + 20):
        compare(seed, 15)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 4_000, 200))
def test_every_changed_name_is_shown_and_no_other_in_many_sessions(first: int) -> None:
    for seed in range(first, first + 200):
        compare(seed, 30)
