"""What came out differently in a rebuild is said, to the user and to the model, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine import Environment, Session
from engine.log.events.session import EnvironmentRestored
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.in_process import InProcessEnvironment
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

END = "import os; os._exit(1)"

DIFFERENT = {
    "r = random.random()": r"left another value in r \(0\.\d+ instead of 0\.\d+\)",
    "t = time.time()": r"left another value in t \(\d+\.\d+ instead of \d+\.\d+\)",
    "uuid.uuid4()": r"displayed UUID\('.*'\) instead of UUID\('.*'\)",
    "print('same'); print(random.random())": r"printed '0\.\d+' instead of '0\.\d+' in line 2",
    "import sys; print(uuid.uuid4(), file=sys.stderr)": r"wrote to stderr '.*' instead of '.*'",
    "text = open('a.txt').read()": r"left another value in text \('now' instead of 'then'\)",
    # What text was then is set before they run.
    "{'now': 1}[text]": "",
    "if text == 'then': only_then = 1": "",
    "if text == 'now': only_now = 1": "",
    "{'now': 1}[open('a.txt').read()]": r"ended with ok instead of error",
    "if open('a.txt').read() == 'then': only_then_read = 1": r"did not change only_then_read",
    "if open('a.txt').read() == 'now': only_now_read = 1": r"changed only_now_read too",
    "raise ValueError(open('a.txt').read())": r"ended with error \(\w+: now\) instead of error \(\w+: then\)",
    "items = [0] * 1000; items[900] = random.random()": r"left another value in items \(its content\)",
    "items.append(random.random())": r"left another value in items \(its content\)",
    "import io; f = io.open('a.txt', 'a')": (
        r"was kept from open a.txt; ended with error \(ReplayEffect\) instead of ok; did .*"
    ),
    "bytes(3)": "",
}
"""Statements, and what is said of each after a rebuild for which a.txt was changed."""
CHANGEABLE = "if os.path.exists('a.txt'): held.append(held); held.append(v)\nelse: del v"

ORDINARY = r"""
import random, time, uuid, os, sys, math, re, json, threading, collections, functools, itertools, dataclasses, enum
object()
o = object(); p = [object(), object()]; s = {object(), object()}
id(o), id(p)
i = id(o); h = hex(id(o)); pair = {"id": id(o)}
print(o, p, hex(id(o)), id(o))
lambda: 1
def f(x, *, y=2): return x + y
f, f.__code__, f(1)
class A:
    def __init__(self, n): self.n = n
    def get(self): return self.n
a = A(1); b = a; c = [a, a]
a, a.get, c
a.n = 5
c.append(A(2)); c
class B(A):
    __slots__ = ()
    def __repr__(self): return f"B({self.n})"
{B(1)}, B(2)
@dataclasses.dataclass
class D:
    x: int
    y: list = dataclasses.field(default_factory=list)
d = D(1); d
d.y.append(3)
E = enum.Enum("E", "ONE TWO"); E.ONE
words = {"b", "a", "c"} | set("hello world"); words
counts = collections.Counter("mississippi"); counts.most_common(2)
groups = collections.defaultdict(list); groups["a"].append(1)
queue = collections.deque(range(5), maxlen=3); queue
P = collections.namedtuple("P", "x y"); P(1, 2)
g = (n * n for n in range(10)); next(g), g
list(itertools.islice(itertools.count(3), 4))
@functools.lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(30), fib.cache_info()
part = functools.partial(f, 1); part, part(y=4)
big = 2 ** 3000; big
math.pi, float("nan"), 1e300 * 10, -0.0
text = "ünï" * 3; text.encode()
blob = bytes(range(256)); blob[:20]
json.dumps({"b": [1, None], "a": {"c": True}}, sort_keys=True)
re.findall(r"\w+", "some words here"), re.compile("a+")
m = re.match("(.)", "x"); m
random.seed(4); seeded = [random.random() for _ in range(3)]; seeded
random.Random(1).sample(range(100), 5)
lock = threading.Lock(); event = threading.Event(); lock
t = threading.Thread(target=print, args=("in a thread",)); t.start(); t.join()
t
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(3) as pool: squares = list(pool.map(lambda n: n * n, range(20)))
squares
import asyncio
async def co(n): await asyncio.sleep(0); return n
asyncio.run(co(3))
pending = co(4); pending
pending.close()
1 / 0
{}["missing"]
raise ValueError(f"about {o!r}")
def deep(n): return deep(n + 1)
deep(0)
undefined_name
def broken(:
import warnings; warnings.warn("careful")
print("out"); print("err", file=sys.stderr)
for n in range(3): print(n, end=" ")
print("x" * 100_000)
del a
x = y = [1]
x += [2]; y
outer = [x]; outer[0].append(3)
z = x; del x
z.clear()
os.getcwd() == os.path.abspath(".")
sorted(os.listdir("."))
content = read("b.txt"); content
ls()
v = view("b.txt"); v
listing = ls("."); listing
v.SetLod(0) if hasattr(v, "SetLod") else None
note = view(text="some text"); note
read("missing.txt")
import sqlite3
db = sqlite3.connect(":memory:"); _ = db.execute("create table t (x)"); db.execute("insert into t values (1)"); db
db.execute("select * from t").fetchall()
import io; buffer = io.StringIO("a\nb"); buffer.readline(), buffer
import hashlib; hashlib.sha256(b"x").hexdigest(), hashlib.md5(b"y")
import datetime; datetime.datetime(2020, 1, 1) + datetime.timedelta(days=1)
import decimal, fractions; decimal.Decimal("0.1") + 1, fractions.Fraction(1, 3)
import pathlib; pathlib.Path("a") / "b"
import weakref; ref = weakref.ref(o); ref
import contextlib
@contextlib.contextmanager
def managed(): yield 1
with managed() as value: value
managed()
import copy; copied = copy.deepcopy(c); copied
type(o), A, int, len, sys, print
exec("made_by_exec = 1"); made_by_exec
globals()["by_name"] = 2; by_name
_ = 3; _hidden = 4
matrix = [[n * m for n in range(50)] for m in range(50)]; matrix[7][8]
matrix[3][3] = 99
big_list = list(range(100_000)); len(big_list)
big_list.sort(key=lambda n: -n)
sys.getrefcount(o) > 0
import types; module = types.ModuleType("m"); module
iter([1]), zip([1], [2]), enumerate("a"), reversed([1]), map(str, [1])
memoryview(b"abc"), range(5), slice(1, 2), Ellipsis, NotImplemented
sys.exc_info(), sys._getframe().f_lineno
try: 1 / 0
except ZeroDivisionError as error: kept_error = error
kept_error
"""


def blocks(text: str) -> list[str]:
    """Statements: a line with those that are indented below it, and decorators with what they stand before."""
    found: list[str] = []
    for line in text.strip().splitlines():
        goes_on = line.startswith((" ", "except")) or (found and found[-1].splitlines()[-1].startswith("@"))
        if goes_on:
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def in_process() -> Environment:
    return InProcessEnvironment(len)


async def run(session: Session, *sources: str) -> None:
    for source in sources:
        await session.cell(source)


async def rebuilt(session: Session) -> EnvironmentRestored:
    """Loses the worker, and says how the next one came about."""
    await run(session, END, "'again'")
    return [event for event in session.events if isinstance(event, EnvironmentRestored)][-1]


async def test_what_came_out_differently_is_said_of_each_statement(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("then")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "import random, time, uuid", *DIFFERENT)
        (tmp_path / "a.txt").write_text("now")
        said = (await rebuilt(session)).divergences
    for number, (source, words) in enumerate(DIFFERENT.items(), 2):
        mine = [
            line.removeprefix(f"<statement {number}> ") for line in said if line.startswith(f"<statement {number}> ")
        ]
        ending = r"(; \w+ set from what was kept)?(; no copy of .*)?"
        assert any(re.fullmatch(words + ending, line) for line in mine) if words else not mine, (source, mine)


@pytest.mark.slow
async def test_nothing_is_said_of_ordinary_statements(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("some\ncontent\n")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        statements = blocks(ORDINARY)
        assert len(statements) > 100
        await run(session, *statements)
        restored = await rebuilt(session)
    assert restored.executions == len(statements)
    assert restored.divergences == ()


@pytest.mark.parametrize("in_turns", [True, False], ids=["in turns", "as cells"])
async def test_nothing_is_said_of_handles_that_are_listed_and_used(tmp_path: Path, in_turns: bool) -> None:
    (tmp_path / "a.py").write_text("".join(f"line {number}\n" for number in range(200)))
    statements = ["a = view('a.py', tokens=60); ls()", "ls()", "a.SetPos('90'); b = view('a.py'); ls()", "ls()", "b"]
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for statement in statements:
            await (session.accept(statement).end() if in_turns else session.cell(statement))
        restored = await rebuilt(session)
    assert restored.executions == len(statements)
    assert restored.divergences == ()


async def test_the_model_is_told_of_a_rebuild_once_and_whoever_looks_takes_nothing(tmp_path: Path) -> None:
    model = AnsweringModel(runs("import random", "r = random.random()"))
    async with sessions_of(tmp_path, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("draw a number").end()
        await run(session, END, "'again'")
        assert "rebuilt in a new worker" in (await session.projection()).prompt.tail
        before = len(model.prompts)
        await session.accept("go on").end()
        await session.accept("and on").end()
    told, later = model.prompts[before:]
    assert told.tail.endswith("\nnamespace: rebuilt in a new worker: 2 statements ran again\n")
    assert "left another value" not in told.tail  # its copy has the value that it had
    assert later.tail == ""


async def test_a_handle_that_only_the_rebuild_has_put_into_a_cycle_is_in_no_table(tmp_path: Path) -> None:
    """The statement lets go of it there, too; but what it has put it into is not seen to be garbage at once."""
    listed = "listed = ls(); listed"
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "import os; held = []; v = view(text='some')", CHANGEABLE, listed)
        (tmp_path / "a.txt").write_text("now")
        said = (await rebuilt(session)).divergences
    assert [line.partition(" ")[2] for line in said] == [
        "2> changed held too",
        "2> deleted other names: v; held set from what was kept",
    ]


async def test_what_was_deleted_does_not_come_back_with_what_it_shared_objects_with(tmp_path: Path) -> None:
    changing = "if os.path.exists('a.txt'): c = [a]\nelse: del a"
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "import os; a = [1]; b = {'k': a}; c = [a, b]", "del b", changing)
        (tmp_path / "a.txt").write_text("now")
        said = (await rebuilt(session)).divergences
        assert said[-1] == "<statement 3> deleted other names: a; c set from what was kept"
        finished = await session.cell("sorted({'a', 'b', 'c'} & globals().keys()), c")
    assert finished.value == "(['c'], [[1], {'k': [1]}])"


@pytest.mark.parametrize("again", ["f, g = g, f", "def f(): return 'another'", "del f", "held.put = g; C.put = g"])
async def test_a_copy_holds_the_function_that_it_held_whatever_its_name_stands_for_now(
    tmp_path: Path, again: str
) -> None:
    definitions = (
        "import os, functools\ndef f(): return 'f'\ndef g(): return 'g'\nclass C:\n    def put(self): return f()"
    )
    held = "held = functools.partial(f); held.own = [f, C.put]"
    lost = "if os.path.exists('a.txt'): del held"
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, definitions, held, again, lost)
        (tmp_path / "a.txt").write_text("now")
        assert "held set from what was kept" in (await rebuilt(session)).divergences[-1]
        shown = await session.cell("held(), [each.__qualname__ for each in held.own]")
    assert shown.value == "('f', ['f', 'C.put'])"


REFUSING = """
import os, random
class Refusing:
    def __init__(self): self.n = random.random()
    def __getstate__(self):
        if os.path.exists(refuse): raise ValueError('not now')
        return self.__dict__
if os.path.exists(refuse): lost = Refusing()
refusing = [Refusing()]
"""


async def test_what_a_rebuild_had_no_copy_of_is_what_it_came_to_from_then_on(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    (tmp_path / "refuse").touch()
    async with sessions_of(tmp_path, store, environments=in_process) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, f"refuse = {str(tmp_path / 'refuse')!r}", REFUSING)
    (tmp_path / "refuse").unlink()
    shown = "n, refusing[0].n == n, 'lost' in globals()"
    values: list[str | None] = []
    for source in (f"n = refusing[0].n\n{shown}", shown, shown):
        async with sessions_of(tmp_path, store, environments=in_process) as sessions:
            session = await sessions.load(session.session_id)
            values.append((await session.cell(source)).value)
            said = [event.divergences for event in session.events if isinstance(event, EnvironmentRestored)]
        (tmp_path / "refuse").touch()
    assert values[0] == values[1] == values[2]
    assert all(line.startswith("<statement 2> ") for lines in said for line in lines)


@pytest.mark.parametrize(
    ("definition", "change"),
    [("def f(): return 1", "f.seen = [1]"), ("class f: seen = 1", "f.seen = 2"), ("f = [1]", "f.append(1)")],
    ids=["function", "class", "list"],
)
async def test_what_was_filled_in_place_is_no_change_of_the_next_statement(
    tmp_path: Path, definition: str, change: str
) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, f"import os\n{definition}")
        stopped = await session.cell(f"{change}\nwhile True: pass", seconds=0.1)
        await run(session, "str(f)")
        said = (await rebuilt(session)).divergences
    assert (stopped.status, said) == ("timeout", ())
