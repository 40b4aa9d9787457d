"""Changes of the namespace, with and without handles, and of random graphs against a slow comparison."""

from __future__ import annotations

import ast
import gc
import random
import tracemalloc
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import numpy as np
import pytest

from engine.core.execution import NamespaceDiff
from engine.runtime.worker.namespace import NamespaceWatch
from engine.runtime.worker.sharing import REPR_LIMIT, describe, short_repr
from tests.support.boards import Desk
from tests.support.watched import Space


def test_names_are_added_changed_and_deleted() -> None:
    space = Space()
    diff = space.run("a = 1\nb = [1]\nimport os")
    assert set(diff.added) == {"a", "b", "os"}
    diff = space.run("a = 2; del b")
    assert diff.changed["a"].before.short_repr == "1"
    assert diff.changed["a"].after.short_repr == "2"
    assert diff.changed["a"].before_digest != diff.changed["a"].after_digest
    assert not diff.changed["a"].mutated
    assert diff.deleted == ("b",)
    assert not space.run("a")


def test_injected_and_dunder_names_are_left_out() -> None:
    space = Space()
    assert not space.run("view = 5; __hidden = 1")


def test_binding_an_equal_constant_again_is_no_change() -> None:
    space = Space()
    space.run("x = 1000; s = 'a' * 50")
    assert not space.run("x = 999 + 1; s = 'a' * 50")


def test_a_deleted_value_is_freed_within_its_statement() -> None:
    space = Space()
    space.run("class T: pass\nt = T()\nu = T()")
    gone, rebound = weakref.ref(space.names["t"]), weakref.ref(space.names["u"])
    space.names["check"] = lambda: (gc.collect(), gone() is None, rebound() is None)[1:]
    space.run("1")
    space.run("del t\nu = 1\nfreed = check()")
    assert space.names["freed"] == (True, True)


def test_objects_that_misbehave_are_unknown_and_break_nothing() -> None:
    space = Space()
    diff = space.run(
        "class Bad:\n"
        "    def __repr__(self): raise SystemExit\n"
        "    def __reduce_ex__(self, n): raise ZeroDivisionError\n"
        "    def __eq__(self, other): raise ValueError\n"
        "    __hash__ = None\n"
        "    def __getattr__(self, name): raise KeyError(name)\n"
        "bad = Bad(); bads = [Bad()]; gen = (i for i in [1]); import threading; lock = threading.Lock()"
    )
    assert "SystemExit" in diff.added["bad"].short_repr
    assert not space.run("bad, bads, gen, lock")
    assert set(space.run("bad = Bad()").changed) == {"bad"}


def test_a_value_whose_examination_was_interrupted_is_not_examined_again() -> None:
    space = Space()
    space.names["calls"] = calls = []
    with pytest.raises(KeyboardInterrupt):
        space.run("class H:\n    def __repr__(self):\n        calls.append(1); raise KeyboardInterrupt\nh = H()")
    space.run("h")
    assert calls == [1]
    assert space.run("h = 3").changed["h"].after.short_repr == "3"


def test_reprs_are_short_bounded_and_without_addresses() -> None:
    assert short_repr(object()) == "<object object at 0x…>"
    assert short_repr({"a": [1, (2,)], "b": set()}) == "{'a': [1, (2,)], 'b': set()}"
    assert short_repr([1]) == "[1]"
    assert short_repr(frozenset({1})) == "frozenset({1})"
    assert short_repr(bytearray(b"ab")) == "bytearray(b'ab')"
    assert short_repr(Counter("aab")) == "Counter({'a': 2, 'b': 1})"
    for value in ("x" * 10**6, list(range(10**6)), 10**10000, {i: i for i in range(10**5)}, [[[[[["deep"]]]]]] * 50):
        assert len(short_repr(value)) <= REPR_LIMIT
    assert short_repr("\ud800") == repr("\ud800")
    recursive: list[object] = []
    recursive.append(recursive)
    assert short_repr(recursive) == "[[[[…]]]]"
    assert describe([1, 2]).size == 2


@pytest.mark.parametrize(
    "value",
    [
        bytearray(10**7),
        array("d", bytes(8 * 10**5)),
        deque(range(10**5)),
        Counter(range(10**5)),
        OrderedDict.fromkeys(range(10**5)),
        defaultdict(int, dict.fromkeys(range(10**5))),
        dict.fromkeys(range(10**5)).keys(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_large_containers_are_described_without_their_repr(value: Any) -> None:
    tracemalloc.start()
    try:
        text = short_repr([value])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert text == f"[<{type(value).__name__} of {len(value)} elements>]"


@pytest.mark.parametrize(
    ("before", "statement", "changed"),
    [
        ("inner = [1]; outer = [inner]", "outer[0].append(2)", "inner outer"),
        ("inner = [1]; outer = [inner]", "inner.append(2)", "inner outer"),
        ("inner = [1]; outer = {'k': (inner,)}", "outer['k'][0].append(2)", "inner outer"),
        ("class C: pass\na = C(); a.b = C(); b = a.b", "a.b.x = 1", "a b"),
        ("class C: pass\na = C(); d = a.__dict__", "d['x'] = 1", "a d"),
        ("class C: n = 0\na = C()", "C.n = 1", "C"),
        ("class C: held = []\nh = C.held; D = [C]", "h.append(1)", "C D h"),
        ("def f(x=[]): x.append(1)\nd = f.__defaults__[0]", "f()", "d f"),
        ("def f(): f.n += 1\nf.n = 0\ng = [f]", "f()", "f g"),
        ("def make(n=0):\n def up():\n  nonlocal n; n += 1\n return up, lambda: n\nup, get = make()", "up()", "get up"),
        ("x = []\nadd = x.append", "add(1)", "add x"),
        ("x = []\ndef f(): x.append(1)\ntable = {'f': f}", "table['f']()", "x"),
        ("x = []\nclass C:\n def __call__(self): x.append(1)\nheld = [C()]", "held[0]()", "x"),
        ("x = []\nimport functools\np = functools.partial(lambda y: x.append(y))", "p(1)", "x"),
        ("x = []\ndef count():\n for n in range(3):\n  x.append(n); yield n\ngen = count()", "next(gen)", "gen x"),
        ("a = [1]; b = a; c = [a]", "a.append(2); del a", "b c"),
        ("a = [1]; b = a; c = [a]", "a.append(2); a = 5", "a b c"),
        ("a = [1]; b = [a]", "t = b.pop(); t.append(2); b.append([1]); del t", "a"),
        ("a = [1]; b = [a]", "b.append(b.pop())", ""),
        ("s = {5, 99, 'x'}; d = {'a': 1, 'b': 2}", "s.add(9); s.remove(9); d['a'] = d.pop('a')", ""),
        ("x = [float('nan')]", "x[0] = float('nan')", ""),
        ("import numpy as np\na = np.arange(4); b = a[:2]; c = np.arange(4)", "b[0] = 9", "a b"),
        ("import numpy as np\na = np.arange(4); b = a[:2]", "a[3] = 9", "a"),
        ("import numpy as np\nl = [1]; a = np.empty(1, object); a[0] = l", "a[0].append(2)", "a l"),
    ],
)  # fmt: skip
def test_a_change_shows_in_every_name_that_shares_the_part(before: str, statement: str, changed: str) -> None:
    space = Space()
    space.run(before)
    diff = space.run(statement)
    assert (" ".join(sorted(diff.changed)), diff.unknown) == (changed, {})
    assert not space.run("; ".join(name for name in space.names if name[:1] != "_" and name != "view"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("f.loc[0, 'n'] = 9", "f g"),
        ("f['new'] = 1", "f g"),
        ("s[0] = 5", "s"),
        ("held.append(3)", "f g held"),
        ("f.describe(); f.values; len(f); f.groupby('n').sum(); f.T", ""),
        ("f.columns = ['a', 'b', 'c']", "f g"),
        ("f['n'] = f['n'].to_numpy()[::-1]", "f g"),
    ],
)
def test_tables_are_compared_by_their_values(statement: str, changed: str) -> None:
    space = Space()
    space.run("import pandas as pd\nheld = [1]; f = pd.DataFrame({'n': [1, 2], 't': ['a', 'b'], 'o': [held, None]})")
    space.run("g = {'f': f}; s = pd.Series([1, 2]); i = f.index")
    diff = space.run(statement)
    assert (" ".join(sorted(diff.changed)), diff.unknown) == (changed, {})


def test_comparison_runs_no_user_code() -> None:
    space = Space()
    space.names["ran"] = ran = []
    space.run(
        "def note(name):\n"
        "    def method(self, *given): ran.append(name); raise SystemExit\n"
        "    return method\n"
        "asked = '__reduce__ __reduce_ex__ __getstate__ __eq__ __hash__ __getattribute__ __len__ __iter__'.split()\n"
        "Bad = type('Bad', (), {name: note(name) for name in asked} | {'__module__': '__main__'})\n"
        "BadList = type('BadList', (list,), {name: note(name) for name in asked} | {'__module__': '__main__'})\n"
    )
    space.run("x = Bad(); y = BadList(); z = [x, (y,)]")
    ran.clear()
    space.run("object.__setattr__(x, 'n', 1)")
    assert set(space.run("list.append(y, 1)").changed) == {"y", "z"}
    assert not space.run("x, y, z")
    assert ran == []


def test_an_interrupted_examination_still_names_what_was_bound() -> None:
    space = Space()
    space.run("old = []; lost = 1")
    with pytest.raises(KeyboardInterrupt):
        space.run(
            "class H:\n    def __repr__(self): raise KeyboardInterrupt\n"
            "a = 1; h = H(); z = [2]; old.append(1); del lost"
        )
    assert set(space.watch.diff.added) == {"H", "a", "h", "z"}
    assert set(space.watch.diff.changed) | set(space.watch.diff.unknown) == {"old"}
    assert space.watch.diff.deleted == ("lost",)
    assert {"a", "h", "z", "old"} <= space.watch.changed()
    # What was not examined is not known to be changed the first time.
    assert set(space.run("z.append(3)").unknown) == {"z"}
    assert set(space.run("z.append(4)").changed) == {"z"}


class Watched:
    """A desk whose statements are watched."""

    def __init__(self, root: Path) -> None:
        self.desk = Desk(root)
        self.desk.write("a.txt", "one\ntwo\nthree\n")
        self.watch = NamespaceWatch(self.desk.namespace, tuple(self.desk.namespace))
        self.run("1")

    def run(self, source: str) -> NamespaceDiff:
        self.watch.before(ast.parse(source))
        self.desk.run(source)
        return self.watch.after()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("v.SetTokens(9)", {"v", "same", "held"}),
        ("same.SetPos('2')", {"v", "same", "held"}),
        ("for each in held: each.SetTokens(77)", {"v", "same", "held"}),
        ("[m(3) for m in [held[0].SetTokens]]", {"v", "same", "held"}),
        ("w.Scroll(1)", {"w"}),
        ("def act(): w.Run()\nact()", {"w"}),
        ("v.lod, v.rendered, v.GetDigest(), same is v", set[str]()),
        ("v.SetLod(0)", set[str]()),
    ],
)
def test_changed_handle_shows_under_every_name(watched: Watched, statement: str, changed: set[str]) -> None:
    watched.run("v = view('a.txt'); same = v; held = [v]; w = view('a.txt', pos='2')")
    diff = watched.run(statement)
    assert (set(diff.changed) - {"each"}, diff.unknown) == (changed, {})
    assert all(change.mutated for change in diff.changed.values())


def test_a_method_changes_with_its_handle(watched: Watched) -> None:
    watched.run("v = view('a.txt'); m = v.SetTokens")
    assert set(watched.run("v.SetPos('2')").changed) == {"v", "m"}


def test_a_group_changes_with_a_member_that_it_alone_holds(watched: Watched) -> None:
    watched.run("g = group(view('a.txt')); other = group()")
    assert set(watched.run("g.members[0].SetPos('2')").changed) == {"g"}


def test_changed_handle_has_states_before_and_after(watched: Watched) -> None:
    added = watched.run("v = view('a.txt')").added["v"]
    change = watched.run("v.SetPos('3'); v.SetTokens(50); v.Run()").changed["v"]
    assert change.before.short_repr == added.short_repr
    assert change.before.short_repr.startswith("<view a.txt paused lod=0 tokens=2000 ")
    assert change.after.short_repr.startswith("<view a.txt:3 running lod=0 tokens=50 ")
    assert change.before_digest != change.after_digest
    watched.desk.write("a.txt", "others\n")
    now = watched.run("v.Refresh()").changed["v"]
    assert now.before.short_repr != now.after.short_repr


def test_ticks_are_no_changes_of_the_next_statement(watched: Watched) -> None:
    watched.run("v = view('a.txt', freq='Sync'); held = {'v': v}; other = []")
    watched.watch.changed()
    watched.desk.write("a.txt", "others\n")
    assert watched.desk.tick()
    for source in ("v", "held", "other.append(held)"):
        assert not watched.run(source).changed.keys() & {"v", "held"}, source
    assert set(watched.run("v.SetTokens(9)").changed) == {"v", "held", "other"}


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


def test_a_long_address_does_not_bring_back_what_was_cut() -> None:
    key = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvM"
    shown = short_repr(f"at 0x{'a' * 2_450} {key} more {'b ' * 200}")
    assert [at for at in range(len(key) - 8) if key[at : at + 8] in shown] == []
