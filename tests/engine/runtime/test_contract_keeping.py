"""Values that are kept after a statement and loaded in a rebuild, in any environment."""

from __future__ import annotations

import builtins

import pytest

from engine.log.past import Preserved, Restored
from engine.log.statements import EffectAnswer, EffectRequest
from tests.support.environments import AnyBench, lost_step, past, preserved, restore, until

EVERYTHING = """
import json
from dataclasses import dataclass
from enum import Enum

base = 1
numbers = [1, {"a": (2.5, b"x")}]

@dataclass
class Point:
    x: int

class Colour(Enum):
    RED = 1

def f(n):
    return base if n == 0 else f(n - 1)

def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up

up = counter()
up()
point, red, table = Point(3), Colour.RED, {"f": f}
"""
LOOK = """
base = 7
same = type(point) is Point, red is Colour.RED, table["f"] is f, f.__globals__ is globals()
numbers, point, f(2), up(), json.dumps(1), same
"""


async def names_kept(b: AnyBench, source: str, large: bool = False) -> tuple[list[str], dict[str, str]]:
    await b.run(source)
    found = await preserved(b, large=large)
    return sorted(name for group in found.groups for name in group.names), found.unkept


async def test_what_a_stopped_statement_left_is_there_again(b: AnyBench) -> None:
    await b.run(EVERYTHING)
    found = await preserved(b)
    assert found.unkept == {}
    assert await restore(b, lost_step(found)) == Restored(executions=0)
    assert await b.value(LOOK) == "([1, {'a': (2.5, b'x')}], Point(x=3), 7, 2, '1', (True, True, True, True))"


async def test_statements_act_after_a_rebuild_that_loaded_values(b: AnyBench) -> None:
    await b.run("a = [1]")
    await restore(b, lost_step(await preserved(b)))

    async def answer(request: EffectRequest) -> EffectAnswer:
        return EffectAnswer(value=request.operation)

    for _ in range(2):
        outcome = await b.run("a, read('f.txt')", effects=answer)
        assert (outcome.value, outcome.exception) == ("([1], 'read')", None)


async def test_only_what_changed_since_is_kept(b: AnyBench) -> None:
    assert await names_kept(b, "a = 1; b = [2]; c = 3") == (["a", "b", "c"], {})
    assert await names_kept(b, "b.append(1); c = 4; a") == (["b", "c"], {})
    assert await names_kept(b, "a + 1") == ([], {})


async def test_what_a_rebuild_has_run_again_is_kept_already(b: AnyBench) -> None:
    await restore(b, past("a = 1"), past("b = 2"))
    assert await names_kept(b, "c = 3") == (["c"], {})


async def test_what_was_loaded_is_no_change_of_the_next_statement(b: AnyBench) -> None:
    await b.run("a = [1]; b = 2")
    found = await preserved(b)
    await restore(b, lost_step(found))
    outcome = await b.run("c = 3")
    assert (list(outcome.diff.added), list(outcome.diff.changed)) == (["c"], [])
    assert await names_kept(b, "a.append(2)") == (["a", "c"], {})


async def test_names_that_cannot_be_kept_say_why(b: AnyBench) -> None:
    names, unkept = await names_kept(b, "import threading\nok = 1\nlock = threading.Lock()\ngen = (i for i in ())")
    assert names == ["ok", "threading"]
    assert unkept == {
        "lock": "the value holds a lock, which cannot be copied",
        "gen": "the value holds a generator, which cannot be copied",
    }


async def test_large_values_are_kept_only_on_request(b: AnyBench) -> None:
    assert await names_kept(b, "big = list(range(300_000))") == ([], {"big": "larger than 64 KiB"})
    assert await names_kept(b, "big.append(1)", large=True) == (["big"], {})
    found = await names_kept(b, "del big; huge = [bytes(70 << 20)]", large=True)
    assert found == ([], {"huge": "larger than 64 MiB"})


def names_in(found: Preserved | None) -> list[str]:
    return sorted(name for group in found.groups for name in group.names) if found is not None else []


async def test_small_values_follow_a_statement_that_asks_for_it_once(b: AnyBench) -> None:
    await b.run("a, b = [1], 2", keeps=True)
    found: list[Preserved] = []
    await until(lambda: bool((kept := b.environment.kept()) and not found.append(kept)))
    assert names_in(found[0]) == ["a", "b"]
    assert b.environment.kept() is None
    assert await preserved(b) == Preserved()
    await b.run("c = 3")
    assert b.environment.kept() is None
    assert names_in(await preserved(b)) == ["c"]
    await restore(b, lost_step(found[0]))
    assert await b.value("a, b") == "([1], 2)"


LEFT = {
    "what is large": "large = list(range(300_000))",
    "what runs code": "class Coded:\n def __reduce__(self): return Coded, ()\nlarge = Coded()",
    "very many": "large, many = 1, [globals().__setitem__(f'n{i}', [i]) for i in range(100)]",
}


@pytest.mark.parametrize("what", LEFT)
async def test_slow_values_are_kept_only_on_request(b: AnyBench, what: str) -> None:
    await b.run(f"small = [1]\n{LEFT[what]}", keeps=True)
    found = await preserved(b, large=True)
    assert {"small", "large"} <= set(names_in(found))
    assert found.unkept == {}
    assert b.environment.kept() is None
    assert await preserved(b) == Preserved()


async def test_what_a_stopped_statement_changed_follows_it_too(b: AnyBench) -> None:
    b.on_output = b.environment.interrupt
    outcome = await b.run("x = [1]\nprint(x)\nwhile True: pass", keeps=True)
    b.on_output = None
    assert outcome.status == "cancelled"
    assert names_in(await preserved(b)) == ["x"]
    assert await b.value("x") == "[1]"


async def test_values_of_an_earlier_statement_are_not_the_nexts(b: AnyBench) -> None:
    found: list[list[str]] = []
    for number in range(5):  # on a busy machine even a small value may not be kept at once, and then later
        await b.run(f"x{number} = 1", keeps=True)
        await b.run(f"y{number} = 2", keeps=True)
        found.append(names_in(await preserved(b)))
        if found[-1] == [f"y{number}"]:
            break
    else:
        raise AssertionError(found)
    assert await b.value("x0, y0") == "(1, 2)"


HOSTILE = {
    "raise ValueError('no')": "copying it raised ValueError: no",
    "raise SystemExit(3)": "copying it raised SystemExit: 3",
    "open('made.txt', 'w')": "copying it was not allowed to call open made.txt",
    "import os; os.system('touch made.txt')": "copying it was not allowed to call os.system",
    "globals()['changed'] = 1": "copying the value changed the namespace",
    "return 5": "copying it raised PicklingError: __reduce__ must return a string or tuple",
}
CLASS = """
class Bad:
    def __reduce__(self):
        {}
        return (Bad, ())
"""


@pytest.mark.parametrize("code", HOSTILE)
async def test_code_that_pickling_calls_costs_its_own_name_the_copy(b: AnyBench, code: str) -> None:
    await b.run(CLASS.format(code))
    await preserved(b)
    # In a list, so that the diff of the statement itself has no reason to look.
    await b.run("good, bad = 1, Bad()")
    found = await preserved(b)
    assert [group.names for group in found.groups] == [("good",)]
    assert {name: reason.removesuffix(", not int") for name, reason in found.unkept.items()} == {"bad": HOSTILE[code]}
    assert not (b.cwd / "made.txt").exists()
    assert await b.value("good") == "1"


async def test_loading_touches_nothing_outside_and_tells_each_name_that_failed(b: AnyBench) -> None:
    await b.run(
        "class Opens:\n    def __setstate__(self, state): open('made.txt', 'w')\n"
        "class Raises:\n    def __setstate__(self, state): raise ValueError('no')\n"
        "opens, raises, fine = Opens(), Raises(), [1]\nopens.a = raises.a = 1"
    )
    restored = await restore(b, lost_step(await preserved(b)))
    said, stop = restored.divergences
    assert stop == "loading of kept values was not allowed to call open made.txt"
    assert said.startswith("<statement 1> was stopped (cancelled), and is not run again; ")
    assert "no copy of opens (loading it raised ReplayEffect: a replay has no outside effects;" in said
    assert "raises (loading it raised ValueError: no)" in said
    assert await b.value("fine, 'opens' in globals(), 'raises' in globals()") == "([1], False, False)"
    assert not (b.cwd / "made.txt").exists()


async def test_a_value_finds_the_class_that_ran_again(b: AnyBench) -> None:
    source = "class Point:\n    def double(self): return self.x * 2"
    await b.run(source)
    await preserved(b)
    await b.run("point = Point(); point.x = 4")
    found = await preserved(b)
    await restore(b, past(source), past("old = Point()"), lost_step(found))
    assert await b.value("point.double(), type(point) is type(old) is Point") == "(8, True)"


async def test_a_class_that_two_processes_have_kept_is_one(b: AnyBench) -> None:
    source = "class Point:\n    made = []\nold = Point()"
    await b.run(source)
    first = await preserved(b)
    await restore(b, past(source))
    await b.run("Point.made = [5]")
    second = await preserved(b)
    assert [group.names for group in second.groups] == [("Point",)]
    await restore(b, lost_step(first), lost_step(second, "<statement 2>"))
    assert await b.value("type(old) is Point, Point.made") == "(True, [5])"


async def test_class_defined_again_in_equal_words_is_another(b: AnyBench) -> None:
    source = "class Point:\n    made = []\n"
    await b.run(f"{source}old = Point()")
    first = await preserved(b)
    await restore(b, past(f"{source}old = Point()"))
    await b.run(source)
    await restore(b, lost_step(first), lost_step(await preserved(b), "<statement 2>"))
    assert await b.value("isinstance(old, Point), type(old).__name__") == "(False, 'Point')"


async def test_the_builtins_of_the_namespace_stay_its_own(b: AnyBench) -> None:
    await b.run("before = __builtins__ is not None\ndef f(): return len([1])")
    found = await preserved(b)
    await restore(b, past("mark = id(__builtins__)"), lost_step(found))
    assert await b.value("f(), mark == id(__builtins__)") == "(1, True)"
    assert builtins.len([1]) == 1


async def test_many_names_are_kept_in_few_copies(b: AnyBench) -> None:
    await b.run("import threading\nfor i in range(1000): globals()[f'n{i}'] = [i]\nn7 = threading.Lock()")
    found = await preserved(b)
    names = {name for group in found.groups for name in group.names}
    assert len(names) == 1001
    assert found.unkept == {"n7": "the value holds a lock, which cannot be copied"}
    assert len(found.groups) < 30
    await restore(b, lost_step(found))
    assert await b.value("n0, n999") == "([0], [999])"


@pytest.mark.slow
async def test_value_that_hangs_on_loading_is_interrupted_and_named(b: AnyBench) -> None:
    await b.run("class Hangs:\n    def __setstate__(self, state):\n        while True: pass")
    known = await preserved(b)
    await b.run("hangs = Hangs(); hangs.a = 1")
    found = await preserved(b)
    await b.run("fine = [1]")
    (said,) = (await restore(b, lost_step(known), lost_step(found), lost_step(await preserved(b)))).divergences
    assert "no copy of hangs (loading the copy was interrupted, because it took too long)" in said
    assert await b.value("fine, 'hangs' in globals()") == "([1], False)"
