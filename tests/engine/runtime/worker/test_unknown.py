"""What nobody can compare is called unknown where the statement may have changed it, and not where it only read."""

from __future__ import annotations

import ast

import pytest

from engine.runtime.worker.names_used import LateUses, names_in, uses_in
from tests.support.watched import Space

FILE = """
import io, threading
f = io.TextIOWrapper(io.BytesIO(b"1"))
held = {"file": f, "count": 0}
lock = threading.Lock()
"""


@pytest.mark.parametrize(
    "statement",
    [
        "f.write('x')",
        "held['file'].write('x')",
        "print('x', file=f)",
        "import json\njson.dump([], f)",
        "for line in f: pass",
        "lines = list(f)",
        "f2 = f\nf2.write('x')",
        "def act(): f.write('x')\nact()",
        "exec('f.write(chr(1))')",
        "with f: pass",
        "(lambda: f.write('x'))()",
        "[each.write('x') for each in (f,)]",
    ],
)
def test_what_cannot_be_compared_is_unknown_under_every_name_where_it_is_used(statement: str) -> None:
    space = Space()
    space.run(FILE)
    diff = space.run(statement)
    assert {"f", "held"} <= diff.unknown.keys()
    assert not diff.unknown.keys() & {"lock", "io", "threading"}
    assert diff.unknown["f"] == diff.unknown["held"] == "a TextIOWrapper cannot be compared"
    assert {"f", "held"} <= space.watch.changed()


@pytest.mark.parametrize(
    "statement",
    [
        "f",
        "print(f, f.encoding, f.closed)",
        "g = f",
        "h = [f, held]",
        "f is None or held['count'] > 3",
        "with lock: x = f.closed",
        "lock.acquire(); lock.release()",
        "import os\nos.getcwd()",
        "len(held); repr(f); f'{f}'",
        "print(threading, io, print)",
    ],
)
def test_to_read_from_what_cannot_be_compared_says_nothing(statement: str) -> None:
    space = Space()
    space.run(FILE)
    diff = space.run(statement)
    assert (diff.unknown, diff.changed) == ({}, {})


def test_what_can_be_told_of_a_value_is_compared_though_a_part_cannot() -> None:
    space = Space()
    space.run(FILE)
    for statement in ("held['count'] += 1", "held['more'] = 1", "del held['more']"):
        diff = space.run(statement)
        assert (set(diff.changed), diff.unknown) == ({"held"}, {}), statement
    assert diff.changed["held"].after_digest is None
    assert set(space.run("held['file'].held = 1").unknown) == {"f", "held"}
    assert set(space.run("lock.acquire()").changed) == {"lock"}


@pytest.mark.slow
def test_a_value_too_large_to_be_compared_is_unknown_where_it_is_used_and_no_other_time() -> None:
    space = Space()
    space.run("rows = [[n] for n in range(150_000)]")
    for statement in ("len(rows)", "rows[3]", "total = sum(len(row) for row in rows)", "for row in rows: row[0] + 1"):
        diff = space.run(statement)
        assert (diff.unknown, set(diff.changed) - {"row"}) == ({}, set()), statement
    space.run("row = rows[140_000]; apart = []")
    assert space.run("rows[149_000].append(1)").unknown["rows"] == "it is too large to be compared"
    assert space.run("rows.sort(key=len)").unknown.keys() >= {"rows"}
    assert set(space.run("rows.append([])").changed) == {"rows"}
    assert "row" in space.run("rows[140_000].append(5)").changed
    diff = space.run("row.append(6)")
    assert ("row" in diff.changed, "rows" in diff.unknown) == (True, True)
    assert space.run("other = []\nother.append(1)").unknown == {}


@pytest.mark.parametrize("made", ["['a' * 1000] * 10_000", "{n: 'a' * 1000 for n in range(10_000)}", "[0] * (1 << 21)"])
def test_a_large_container_that_grew_is_changed(made: str) -> None:
    space = Space()
    space.run(f"x = {made}")
    assert space.run("x.update(k=1) if isinstance(x, dict) else x.append(0)").changed.keys() == {"x"}


@pytest.mark.slow
def test_what_shares_with_too_much_is_unknown_not_unchanged() -> None:
    space = Space()
    space.run("hub = [[n] for n in range(30_000)]")
    space.run("\n".join(f"n{number} = [hub]" for number in range(20)))
    diff = space.run("hub[0].append(1)")
    assert diff.changed.keys() | diff.unknown.keys() == {"hub", *(f"n{number}" for number in range(20))}
    assert "hub" in diff.changed


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("a.append(b)", "ab"),
        ("a[0].x = b", "ab"),
        ("a[0] = b", "ab"),
        ("a += b", "ab"),
        ("c = a; c.x = 1", "ac"),
        ("c = a; c.x", ""),
        ("c = [a, b]; c[0].x()", "abc"),
        ("for c in a: c.m()", "ac"),
        ("for c in a: print(c)", ""),
        ("print(*a)", ""),
        ("print(a, file=b)", "abprint"),
        ("c = sorted(a)[0]; c.m()", "ac"),
        ("[x for x in a if x > b]", ""),
        ("(c := a).m()", "ac"),
        ("a if b else c", ""),
        ("x = lambda: a", "a"),
        ("match a:\n    case [b]: b.m()", "ab"),
        ("len(a) + len(b[1:c])", ""),
        ("view(a)", "aview"),
        ("await_(a).b", "aawait_"),
    ],
)
def test_use_and_reading_are_told_apart_by_the_source(statement: str, changed: str) -> None:
    tree = ast.parse(statement)
    uses = uses_in(tree.body, names_in(tree).used, {"view"})
    found = uses.changed | uses.stored
    assert "".join(sorted(found)) == "".join(sorted(set() if not changed else _split(changed)))


def test_uses_that_are_asked_for_late_are_those_of_the_statement_before_it_ran() -> None:
    tree = ast.parse("x = 1; len(a); repr(b)")
    namespace = {"len": print}
    late = LateUses(tree, names_in(tree).used, namespace)
    tree.body.clear()
    namespace.clear()
    namespace["repr"] = print
    assert ("a" in late.found.changed, "b" in late.found.read) == (True, True)


def _split(names: str) -> list[str]:
    for word in ("print", "view", "await_"):
        if names.endswith(word):
            return [*names.removesuffix(word), word]
    return list(names)
