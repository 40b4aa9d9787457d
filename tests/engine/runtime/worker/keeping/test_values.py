"""Values that are kept and loaded into another namespace are what they were, and share what they shared."""

from __future__ import annotations

import json
import os.path
import pickle
import sys
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import pytest

from engine.log.past import ValueGroup
from engine.runtime.results import Completed, Written
from engine.runtime.worker.keeping.naming import header
from engine.runtime.worker.keeping.reasons import why_not_kept
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


def test_what_holds_a_function_or_a_class_of_the_namespace_holds_the_living_one() -> None:
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


def test_a_class_whose_base_is_bound_nowhere_any_more_shares_what_that_holds() -> None:
    source = "a = [1]\nclass C:\n    shared = a\nclass D(C): pass\nd = D()\nC = None"
    there, here = namespace(source), namespace(source)
    assert load(here, keep(there, "a", "D", "d")) == {}
    assert here["D"].shared is here["a"]
    assert here["d"].shared is here["a"]
    assert isinstance(here["d"], here["D"])


def test_a_class_of_the_same_definition_is_filled_in_place_so_that_old_instances_stay_its_instances() -> None:
    there, here = namespace(CLASSES), namespace(CLASSES)
    there["Point"].count = 9
    living = {name: here[name] for name in ("Point", "Frozen", "Colour")}
    assert load(here, keep(there, "Point"), keep(there, "Frozen"), keep(there, "Colour")) == {}
    assert {name: here[name] for name in living} == living
    assert (here["Point"].count, here["point"].half, isinstance(here["point"], here["Point"])) == (9, 1.5, True)
    assert here["red"] is here["Colour"].RED


def test_a_class_of_another_definition_takes_the_place_of_the_living_one() -> None:
    there, here = namespace("class C:\n    def new(self): return 2"), namespace("class C: pass\nc = C()")
    old = here["C"]
    assert load(here, keep(there, "C")) == {}
    assert here["C"] is not old
    assert (here["C"]().new(), hasattr(here["c"], "new")) == (2, False)


def test_a_class_keeps_its_slots_and_what_it_has_of_its_own_besides_what_it_inherits() -> None:
    source = "a = [1]\nclass C: shared = a\nclass D(C): shared = a\nclass S: __slots__ = ('x',)\ns = S(); s.x = 1"
    here = moved(source, "a C D", "S", "s")
    assert here["D"].__dict__["shared"] is here["C"].shared is here["a"]
    assert here["s"].x == 1
    assert not hasattr(here["s"], "__dict__")


def test_a_class_that_was_loaded_is_not_filled_by_another_of_the_same_definition() -> None:
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


def test_an_array_that_lies_in_one_nobody_else_has_is_kept_without_the_rest_of_it() -> None:
    assert moved("import numpy\na = numpy.arange(1_000_000)[5:8]", "a")["a"].tolist() == [5, 6, 7]


def test_a_name_that_is_no_unicode_is_what_it_was_though_it_travels_as_another() -> None:
    there, here = namespace("globals()['\\ud800'] = 1"), namespace()
    data = keep(there, "\ud800").data
    assert load(here, ValueGroup(("\ufffd", "lost"), data)) == {"lost": "its copy does not hold it"}
    assert here["\ud800"] == 1


@pytest.mark.slow
def test_frames_are_kept_by_content() -> None:
    here = moved("import pandas\nf = pandas.DataFrame({'x': [1, 2], 'y': list('ab')})\ns = f.x", "f", "s")
    assert here["f"].to_dict("list") == {"x": [1, 2], "y": ["a", "b"]}
    assert here["s"].tolist() == [1, 2]


REFUSED = {
    "import threading; x = threading.Lock()": "it holds a lock, which cannot be copied",
    "import threading; x = [threading.Thread()]": "it holds a lock, which cannot be copied",
    "import socket; x = socket.socket(); x.close()": "it holds a socket, which cannot be copied",
    "x = (i for i in ())": "it holds a generator, which cannot be copied",
    "x = open('/dev/null'); x.close()": "it holds an open file, which cannot be copied",
    "x = open('/dev/null', 'rb'); x.close()": "it holds an open file, which cannot be copied",
    "x = memoryview(b'abc')": "it holds a memoryview, which cannot be copied",
    "x = [globals()]": "it holds the namespace itself, which is not copied",
    # From 3.14 on Python goes by the room on its stack.
    "x = []\nfor _ in range(100_000): x = [x]": (
        "nested too deeply" if sys.version_info < (3, 14) else "larger than 64 KiB"
    ),
    "x = list(range(1_000_000))": "larger than 64 KiB",
    "import weakref\nclass C: pass\nx = weakref.ref(C)": "it holds a weak reference, which cannot be copied",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_cannot_be_copied_says_why(source: str) -> None:
    names = namespace(source)
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- of which kind, only the reason knows
        keep(names, "x")
    assert why_not_kept(caught.value) == REFUSED[source]


def test_what_is_too_large_is_given_up_while_it_is_written() -> None:
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


def test_code_of_another_python_is_not_loaded_and_its_data_is() -> None:
    there, here = namespace("def f(): pass\nx = [1]"), namespace()
    code, data = keep(there, "f"), keep(there, "x")
    major, minor = header(has_code=True)[4:6]
    older = [bytes((*group.data[:5], minor - 1, *group.data[6:])) for group in (code, data)]
    failures = load(here, *(type(code)(group.names, old) for group, old in zip((code, data), older, strict=True)))
    assert failures == {"f": f"it holds code of Python {major}.{minor - 1}, which Python {major}.{minor} cannot run"}
    assert here["x"] == [1]


def test_each_name_that_cannot_be_loaded_says_why_and_the_others_are_loaded() -> None:
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
        "c": "it needs C, which is not there",
        "lib": "it needs the module gone_library, which is not there",
        "api": "it needs Thing of the module json, which is not there",
        "odd": "it was kept by another version of Rewindow, or its copy is damaged",
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


def test_what_python_keeps_by_its_name_alone_is_kept_as_itself() -> None:
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


def test_a_function_of_the_same_code_is_filled_in_place_so_that_others_still_hold_it() -> None:
    there = namespace(FUNCTIONS)
    here = namespace(FUNCTIONS + "f.__defaults__ = (7,); f.more = 6; C.more = 5")
    assert load(here, keep(there, "f"), keep(there, "C")) == {}
    assert here["held"] == [here["f"], here["C"].put]
    assert (here["f"](), vars(here["f"]), here["C"]().put()) == (1, {"seen": 5}, 3)
    assert not hasattr(here["C"], "more")


def test_a_function_that_lives_under_two_names_is_no_copy_of_two() -> None:
    there = namespace(FUNCTIONS + "def made(): return lambda: 1\nf, g = made(), made()")
    here = namespace(FUNCTIONS + "def made(): return lambda: 1\nf = g = made()")
    assert load(here, keep(there, "f"), keep(there, "g")) == {}
    assert here["f"] is not here["g"]
