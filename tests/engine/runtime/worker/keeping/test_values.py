"""Values that are kept and loaded into another namespace: what they share, their groups of nodes, whose code runs."""

from __future__ import annotations

import collections
import copyreg
import datetime
import decimal
import enum
import json
import os.path
import pathlib
import pickle
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import pytest

from engine.files.group import GroupCycleError
from engine.log.past import ValueGroup
from engine.runtime.results import Completed, Written
from engine.runtime.worker.guarding.guard import OutsideGuard
from engine.runtime.worker.keeping.naming import ForeignCode, fingerprint, header
from engine.runtime.worker.keeping.pickler import Surroundings
from engine.runtime.worker.keeping.reasons import why_not_kept
from engine.runtime.worker.keeping.value_keeper import Loader
from engine.runtime.worker.keeping.writing import SMALL_BYTES, GroupWriter
from tests.support.boards import Desk
from tests.support.keeping import keep, load, moved, namespace, writer

CLASSES = """
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

class Base(ABC):
    @abstractmethod
    def double(self): ...

class Point(Base):
    count = 0
    class Part: ...
    def __init__(self, x): self.x = x
    def double(self):
        super().double()
        return 2 * self.x
    @property
    def half(self): return self.x / 2
    @classmethod
    def make(cls): return cls(1)

@dataclass(frozen=True, slots=True)
class Frozen:
    n: int
    items: list = field(default_factory=list)

class Colour(Enum):
    RED = 1
    BLUE = "b"
    def shout(self): return self.name + "!"

class Pair(NamedTuple):
    a: int
    b: str = "b"

class Box(Generic[T]):
    pass

def local():
    class Local:
        def me(self): return __class__
    return Local

Found = local()
point, part, frozen, red, pair, found = Point(3), Point.Part(), Frozen(1, [2]), Colour.RED, Pair(1), Found()
"""


def test_objects_that_names_share_stay_shared_within_a_group() -> None:
    here = moved("inner = [1]; outer = {'i': inner}; view = outer.values()", "inner outer view")
    here["inner"].append(2)
    assert here["outer"] == {"i": [1, 2]}
    here["outer"]["j"] = 0
    assert list(here["view"]) == [[1, 2], 0]


def test_a_function_has_the_living_namespace_as_its_globals() -> None:
    here = moved("base = 1\ndef f(n):\n    return base if n == 0 else f(n - 1)", "f", "base")
    assert here["f"](3) == 1
    here["base"] = 7
    assert here["f"](3) == 7
    assert here["f"].__globals__ is here


def test_a_function_keeps_its_defaults_attributes_and_annotations() -> None:
    here = moved("def f(a, b=[1], *, c=2) -> int:\n    'says'\n    return a\nf.mark = 5", "f")
    f = here["f"]
    assert (f.__defaults__, f.__kwdefaults__, f.mark, f.__doc__) == (([1],), {"c": 2}, 5, "says")
    assert f.__annotations__ == {"return": int}


def test_functions_of_one_closure_keep_sharing_its_variables() -> None:
    source = """
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up, lambda: n
up, now = counter()
up()
def outer():
    def inner(k): return k if k < 1 else inner(k - 1)
    return inner
inner = outer()
"""
    here = moved(source, "up now", "inner")
    assert (here["up"](), here["now"]()) == (2, 2)
    assert here["inner"](9) == 0


def test_value_holds_the_living_function_or_class() -> None:
    there, here = namespace(CLASSES), namespace(CLASSES)
    there |= namespace("def f(): pass\ntable = [f]; alias = f")
    assert load(here, *(keep(there, name) for name in ("table", "alias", "f", "point", "part"))) == {}
    assert here["table"][0] is here["alias"] is here["f"]
    assert type(here["point"]) is here["Point"]
    assert type(here["part"]) is here["Point"].Part


def test_instances_of_all_kinds_of_classes_are_what_they_were() -> None:
    names = ("Base", "Point", "Frozen", "Colour", "Pair", "Found", "point", "frozen", "red", "pair", "found")
    here = moved(CLASSES, *names)
    assert (here["point"].double.__func__.__name__, here["point"].half) == ("double", 1.5)
    assert here["Point"].make().x == 1
    assert issubclass(here["Point"], here["Base"])
    assert here["frozen"] == here["Frozen"](1, [2])
    assert here["red"] is here["Colour"].RED
    assert here["red"].shout() == "RED!"
    assert here["pair"] == here["Pair"](1)
    assert here["found"].me() is here["Found"]


def test_class_with_an_unbound_base_shares_its_values() -> None:
    source = "a = [1]\nclass C:\n    shared = a\nclass D(C): pass\nd = D()\nC = None"
    there, here = namespace(source), namespace(source)
    assert load(here, keep(there, "a", "D", "d")) == {}
    assert here["D"].shared is here["a"]
    assert here["d"].shared is here["a"]
    assert isinstance(here["d"], here["D"])


def test_equal_class_is_filled_in_place() -> None:
    there, here = namespace(CLASSES), namespace(CLASSES)
    there["Point"].count = 9
    living = {name: here[name] for name in ("Point", "Frozen", "Colour")}
    assert load(here, keep(there, "Point"), keep(there, "Frozen"), keep(there, "Colour")) == {}
    assert {name: here[name] for name in living} == living
    assert (here["Point"].count, here["point"].half, isinstance(here["point"], here["Point"])) == (9, 1.5, True)
    assert here["red"] is here["Colour"].RED


def test_different_class_replaces_the_living_one() -> None:
    there, here = namespace("class C:\n    def new(self): return 2"), namespace("class C: pass\nc = C()")
    old = here["C"]
    assert load(here, keep(there, "C")) == {}
    assert here["C"] is not old
    assert (here["C"]().new(), hasattr(here["c"], "new")) == (2, False)


def test_class_keeps_slots_and_own_attributes() -> None:
    source = "a = [1]\nclass C: shared = a\nclass D(C): shared = a\nclass S: __slots__ = ('x',)\ns = S(); s.x = 1"
    here = moved(source, "a C D", "S", "s")
    assert here["D"].__dict__["shared"] is here["C"].shared is here["a"]
    assert here["s"].x == 1
    assert not hasattr(here["s"], "__dict__")


def test_loaded_class_is_not_filled_by_another() -> None:
    source = "class C:\n    shared = [{}]\n    def put(self): pass\no = C()"
    first, second, here = namespace(source.format(1)), namespace(source.format(2)), namespace()
    classes = WeakValueDictionary[str, Any]()
    assert load(here, keep(first, "C"), keep(first, "o"), classes=classes) == {}
    assert load(here, keep(second, "C"), classes=classes) == {}
    assert (here["C"].shared, type(here["o"]).shared) == ([2], [1])


def test_modules_and_injected_names_are_the_ones_that_are_there() -> None:
    def grep() -> None: ...

    there, here = namespace("import json, os.path as p\nboth = [json, p]"), namespace()
    there["search"] = grep
    assert load(here, keep(there, "both"), keep(there, "search", injected={"grep": grep}), injected={"grep": 1}) == {}
    assert here["both"] == [json, os.path]
    assert here["search"] == 1


def test_what_tools_return_is_kept_as_itself() -> None:
    there, here = namespace(), namespace()
    done = Completed(code=0, output="out", truncated=False, timed_out=False, signal=None, reason="", seconds=1.0)
    there["values"] = [done, Written(path="a", created=True, added=1, removed=0, line=1, size=2)]
    assert load(here, keep(there, "values")) == {}
    assert here["values"] == there["values"]


def test_arrays_are_kept_by_content() -> None:
    here = moved("import numpy\na = numpy.arange(6).reshape(2, 3)\nrow = a[0]", "a")
    assert here["a"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_arrays_that_lie_in_each_other_still_do() -> None:
    source = """
import numpy
a = numpy.arange(10)
part, turned, raw, fixed = a[2:5], a[::-2], a.view("u1"), a[:3]
fixed.flags.writeable = False
table = numpy.arange(12.0).reshape(3, 4)
column = table.T[1]
"""
    groups = ("a part turned raw fixed", "table column")
    there, here = moved(source, *groups), namespace()
    assert load(here, *(keep(there, *group.split()) for group in groups)) == {}
    here["a"][3], here["table"][2, 1] = 77, 0.5
    assert here["part"].tolist() == [2, 77, 4]
    assert here["turned"].tolist() == [9, 7, 5, 77, 1]
    assert (here["raw"][24], here["column"].tolist()) == (77, [1.0, 5.0, 0.5])
    assert not here["fixed"].flags.writeable
    here["part"][0] = -1
    assert here["a"][2] == here["fixed"][2] == -1


def test_slice_of_an_unshared_array_is_kept_alone() -> None:
    assert moved("import numpy\na = numpy.arange(1_000_000)[5:8]", "a")["a"].tolist() == [5, 6, 7]


def test_name_without_unicode_is_restored() -> None:
    there, here = namespace("globals()['\\ud800'] = 1"), namespace()
    data = keep(there, "\ud800").data
    assert load(here, ValueGroup(("\ufffd", "lost"), data)) == {"lost": "the copy does not contain the name"}
    assert here["\ud800"] == 1


@pytest.mark.slow
def test_frames_are_kept_by_content() -> None:
    here = moved("import pandas\nf = pandas.DataFrame({'x': [1, 2], 'y': list('ab')})\ns = f.x", "f", "s")
    assert here["f"].to_dict("list") == {"x": [1, 2], "y": ["a", "b"]}
    assert here["s"].tolist() == [1, 2]


REFUSED = {
    "import threading; x = threading.Lock()": "the value holds a lock, which cannot be copied",
    "import threading; x = [threading.Thread()]": "the value holds a lock, which cannot be copied",
    "import socket; x = socket.socket(); x.close()": "the value holds a socket, which cannot be copied",
    "x = (i for i in ())": "the value holds a generator, which cannot be copied",
    "x = open('/dev/null'); x.close()": "the value holds an open file, which cannot be copied",
    "x = open('/dev/null', 'rb'); x.close()": "the value holds an open file, which cannot be copied",
    "x = memoryview(b'abc')": "the value holds a memoryview, which cannot be copied",
    "x = [globals()]": "the value contains the namespace itself, which cannot be copied",
    # From 3.14 on Python goes by the room on its stack.
    "x = []\nfor _ in range(100_000): x = [x]": (
        "nested too deeply" if sys.version_info < (3, 14) else "larger than 64 KiB"
    ),
    "x = list(range(1_000_000))": "larger than 64 KiB",
    "import weakref\nclass C: pass\nx = weakref.ref(C)": "the value holds a weak reference, which cannot be copied",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_cannot_be_copied_says_why(source: str) -> None:
    names = namespace(source)
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- of which kind, only the reason knows
        keep(names, "x")
    assert why_not_kept(caught.value) == REFUSED[source]


def test_too_large_value_is_given_up_while_written() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(1000)

    names = namespace()
    names["x"] = type("Endless", (), {"__reduce__": lambda self: (list, (), None, endless())})()
    with pytest.raises(Exception, match="65,536"):
        writer(names).in_memory_guarded(("x",))
    # The pickler asks for a thousand at a time.
    assert taken <= 1000


def test_code_of_another_python_is_not_loaded() -> None:
    there, here = namespace("def f(): pass\nx = [1]"), namespace()
    code, data = keep(there, "f"), keep(there, "x")
    major, minor = header(has_code=True)[4:6]
    older = [bytes((*group.data[:5], minor - 1, *group.data[6:])) for group in (code, data)]
    failures = load(here, *(type(code)(group.names, old) for group, old in zip((code, data), older, strict=True)))
    assert failures == {
        "f": f"the copy contains code of Python {major}.{minor - 1}, which Python {major}.{minor} cannot run"
    }
    assert here["x"] == [1]


def test_names_that_cannot_be_loaded_say_why() -> None:
    there = namespace("class C: pass\nc = C(); ok = 1")
    here = namespace("class Angry:\n    def __setstate__(self, s): raise ValueError('no')")
    groups = [keep(there, "c"), keep(there, "ok")]
    groups.append(type(groups[0])(("lib",), header(has_code=False) + b"cgone_library\nThing\n."))
    groups.append(type(groups[0])(("api",), header(has_code=False) + b"cjson\nThing\n."))
    groups.append(type(groups[0])(("cut",), groups[1].data[:-4]))
    groups.append(type(groups[0])(("odd",), pickle.dumps(1)))
    failures = load(here, *groups)
    assert failures.pop("cut").startswith("loading it raised ")
    assert failures == {
        "c": "the copy needs C, which does not exist",
        "lib": "the copy needs the module gone_library, which does not exist",
        "api": "the copy needs Thing of the module json, which does not exist",
        "odd": "the copy is damaged, or made by another version of Rewindow",
    }
    assert here["ok"] == 1


CACHED = """
import functools
from typing import NewType
held = [1]
@functools.lru_cache(maxsize=7, typed=True)
def f(n): return [n, held]
f.seen = held
h = f
New = NewType('New', int)
"""


def test_values_pickled_by_name_are_kept_as_themselves() -> None:
    there, here = namespace(CACHED), namespace("def f(n): return 'another'\nNew = 5")
    assert load(here, keep(there, "f", "h"), keep(there, "New"), keep(there, "held")) == {}
    assert here["f"] is here["h"]
    assert here["f"].cache_parameters() == {"maxsize": 7, "typed": True}
    assert (here["f"](2), here["f"].cache_info().currsize, here["f"].seen) == ([2, [1]], 1, [1])
    assert (here["New"].__name__, here["New"].__supertype__, here["New"].__module__) == ("New", int, "__main__")


FUNCTIONS = """
def f(n=1): return n
f.seen = 5
def g(n=2): return n
class C:
    def put(self, n=3): return n
held = [f, C.put]
"""


def test_class_with_another_constant_is_another() -> None:
    one, equal, other = (namespace(f"class C:\n    def get(self): return {value}")["C"] for value in (1, 1, 2))
    assert fingerprint(one) == fingerprint(equal) != fingerprint(other)


def test_function_of_equal_code_is_filled_in_place() -> None:
    there = namespace(FUNCTIONS)
    here = namespace(FUNCTIONS + "f.__defaults__ = (7,); f.more = 6; C.more = 5")
    assert load(here, keep(there, "f"), keep(there, "C")) == {}
    assert here["held"] == [here["f"], here["C"].put]
    assert (here["f"](), vars(here["f"]), here["C"]().put()) == (1, {"seen": 5}, 3)
    assert not hasattr(here["C"], "more")


def test_function_under_two_names_is_not_two_copies() -> None:
    there = namespace(FUNCTIONS + "def made(): return lambda: 1\nf, g = made(), made()")
    here = namespace(FUNCTIONS + "def made(): return lambda: 1\nf = g = made()")
    assert load(here, keep(there, "f"), keep(there, "g")) == {}
    assert here["f"] is not here["g"]


@pytest.fixture
def desk(desk: Desk) -> Desk:
    for name in "ab":
        desk.write(f"{name}.py", "one\ntwo\n")
    desk.run("a = view('a.py'); b = view('b.py', freq='Sync')")
    return desk


def _kept(desk: Desk, *names: str) -> ValueGroup:
    known = Surroundings(desk.namespace, {id(value): name for name, value in desk.board.names().items()}, desk.board)
    return ValueGroup(names, GroupWriter(known, OutsideGuard(), SMALL_BYTES, 10.0).in_memory(names))


def _loaded(desk: Desk, *groups: ValueGroup) -> Desk:
    other = Desk(desk.root)
    for digest, data in desk.contents.items():
        other.board.looks.take_content(digest, data)
    marks: WeakValueDictionary[str, Any] = WeakValueDictionary()
    loader = Loader(other.namespace, other.board.names(), other.board, marks)
    loader.load(groups)
    assert loader.failures == {}
    return other


def test_a_group_comes_back_with_its_members_and_its_policy(desk: Desk) -> None:
    desk.run("g = group(a, group(b, tokens=90), tokens=300, freq=('Periodic', 9)); pin(g, 'why')")
    again = _loaded(desk, _kept(desk, "g"))
    group = again.get("g")
    assert group.GetDigest() == desk.get("g").GetDigest()
    assert (group.pinned, group.last_touched) == ("why", desk.get("g").last_touched)
    assert [node.obj_id for node in again.board.handles()] == [node.obj_id for node in desk.board.handles()]
    again.namespace |= {"a": again.board.handles()[0], "b": again.board.handles()[1]}
    again.run("0")
    assert group.Render().text == desk.text("g")


def test_named_member_is_one_node_in_any_loading_order(desk: Desk) -> None:
    desk.run("g = group(a, b); all = [a, g]")
    kept = _kept(desk, "a"), _kept(desk, "g"), _kept(desk, "all")
    for groups in (kept, kept[::-1]):
        again = _loaded(desk, *groups)
        assert again.get("g").members[0] is again.get("a")
        assert again.get("all") == [again.get("a"), again.get("g")]
        again.run("a.SetPos('2')")
        assert "# a: a.py:2" in again.text("g")


def test_living_group_takes_over_its_kept_state(desk: Desk) -> None:
    desk.run("g = group(a)")
    kept = _kept(desk, "g")
    desk.run("g.Remove(a); g.Add(b)")
    group = desk.get("g")
    Loader(desk.namespace, desk.board.names(), desk.board, WeakValueDictionary()).load([kept])
    assert desk.get("g") is group
    assert group.members == (desk.get("a"),)
    desk.run("b.SetPos('2')")
    assert not any(event.kind == "group_recomputed" for event in desk.tick())


def test_state_with_a_cycle_is_refused(desk: Desk) -> None:
    desk.run("g = group(a); outer = group(g)")
    state = desk.board.state_of(desk.get("g")) | {"members": [desk.get("outer")]}
    with pytest.raises(GroupCycleError):
        desk.board.node_from("group-2.1", state)
    assert desk.get("g").members == (desk.get("a"),)


@pytest.mark.parametrize("state", [7, {}, {"type": "other"}, {"type": "group"}, {"type": "group", "members": 7}])
def test_what_is_no_state_is_refused(desk: Desk, state: object) -> None:
    with pytest.raises(ValueError, match="not the state of a"):
        desk.board.node_from("group-9.1", state)


HARMLESS: tuple[Any, ...] = (
    datetime.datetime(2026, 1, 1),
    decimal.Decimal(1),
    pathlib.Path("a"),
    re.compile("a"),
    collections.Counter("aab"),
    collections.OrderedDict(a=1),
    collections.deque([1]),
    enum.Flag("Bits", "A B"),
    ValueError("a"),
    threading.Lock(),
    int,
    len,
)
OURS = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
class Plain: pass
class Slots: __slots__ = ("a",)
class Iterable:
    def __iter__(self): return iter(())
@dataclass(frozen=True, slots=True)
class Frozen:
    a: int = 0
class Colour(Enum): RED = 1
class Pair(NamedTuple):
    a: int = 0
class Wrong(ValueError): pass
class Names(dict): pass
values = [Plain(), Slots(), Iterable(), Frozen(), Colour.RED, Pair(), Wrong(), Names(), Plain, Colour]
"""
THEIRS = (
    "def __reduce__(self): ...",
    "def __reduce_ex__(self, protocol): ...",
    "def __getstate__(self): ...",
    "def __getnewargs__(self): ...",
    "def __getnewargs_ex__(self): ...",
    "def __getattr__(self, name): raise AttributeError",
    "def __getattribute__(self, name): return object.__getattribute__(self, name)",
    "__class__ = property(lambda self: int)",
    "__getstate__ = staticmethod(lambda: {})",
)


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: type(value).__name__)
def test_what_python_brings_runs_no_code_of_the_users(value: object) -> None:
    assert not ForeignCode().runs_for(type(value))


def test_plain_classes_of_statements_run_none_either() -> None:
    found = {type(value).__name__: ForeignCode().runs_for(type(value)) for value in namespace(OURS)["values"]}
    assert not any(found.values()), found


@pytest.mark.parametrize("member", THEIRS)
@pytest.mark.parametrize("base", ["object", "list", "Base"])
def test_class_with_own_pickling_runs_its_code(member: str, base: str) -> None:
    names = namespace(f"class Base:\n    {member}\nclass C({base}):\n    {member if base != 'Base' else 'pass'}")
    assert ForeignCode().runs_for(names["C"])


@pytest.mark.parametrize("base", ["list", "dict", "set"])
def test_container_with_own_iteration_runs_its_code(base: str) -> None:
    names = namespace(f"class C({base}):\n    def __iter__(self): return iter(())\n    def items(self): return ()")
    assert ForeignCode().runs_for(names["C"])


def test_registered_reduction_and_metaclass_run_their_code() -> None:
    names = namespace("class M(type):\n    def __hash__(self): return 1\nclass C: pass")
    assert ForeignCode().runs_for(names["M"])
    copyreg.pickle(names["C"], lambda value: (names["C"], ()))
    try:
        assert ForeignCode().runs_for(names["C"])
    finally:
        del copyreg.dispatch_table[names["C"]]
