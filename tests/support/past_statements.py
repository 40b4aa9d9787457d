"""Random sessions for tests of a rebuilt past: statements, ticks, stops, and changes by somebody else.

Each statement that `Chance.step` draws prints, as the last thing it does, what the namespace holds then. So whatever
ends a session, its log says what was there: the output of the last statement that left its names. A rebuild prints it
again, so a state that differs on the way is a divergence of a statement that can have none.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from tests.support.past_probe import PROBE

BEGINNING = """
import collections, dataclasses, functools, os, random, subprocess, time
from pathlib import Path
a = [1]; b = {'k': a}; c = [a, b]; d = 'text'; e = (1, [2])
def f(n=1): return n, a
def g(n=1): return f(n)
class C:
    shared = a
    def __init__(self, n=0): self.n = n
    def put(self, n): self.n = [self.n, n]; return self
class D(C):
    def twice(self): return self.put(self.n)
o = C(a); p = D(o)
v = view('a.txt'); w = view('b.txt', mode='running'); u = view('a.txt', tokens=40)
"""
FILES = ("a.txt", "b.txt", "s/c.txt")
DATA, FUNCTIONS, CLASSES, OBJECTS, VIEWS = "abcde", "fg", "CD", "op", "uvw"

ORDINARY = (
    "{x} = [{y}, {y}, {n}]",
    "{x} = {{'k': {y}, 'l': [{z}]}}",
    "{x} = {y}",
    "{x} = {y}, {z}",
    "{x}.append({n})",
    "{x}.append({y})",
    "{x}['k'] = {y}",
    "{x}['k'].append({n})",
    "{x}[0].append({n})",
    "{x} += [{n}]",
    "{x} = {{{n}, {n} + 1}}",
    "{x} = []; {x}.append({x})",
    "{x} = bytearray(b'some'); {y} = [{x}]",
    "{x} = random.Random({n}); {y} = [{x}, {x}.random()]",
    "{x} = iter([{n}, 2, 3]); next({x})",
    "for {x} in range({n}): pass",
    "del {x}",
    "del {x}, {y}",
    "{x} = {n}; {y} = [{n}]",
    "{x} = 5; 1 / 0",
    "{y}.append(7); raise ValueError('{n}')",
    "{f} = lambda n=2, k={x}: (n, k, {y})",
    "def {f}(n={n}):\n    global {x}\n    {x} = [n, {y}]\n    return {x}",
    "def make(made={y}):\n    cell = [{n}]\n    def inner(n=1): cell.append(n); return cell, made\n"
    "    return inner\n{f} = make()",
    "def pair():\n    held = [{n}]\n    def up(n=1): held.append(n); return held\n    def get(n=1): return held\n"
    "    return up, get\nf, g = pair()",
    "def {f}(n=1, into=[]): into.append(n); return into, {y}",
    "{f}.seen = [{y}]",
    "{x} = functools.partial({f}, {y})",
    "{x} = collections.deque([{y}, {n}], maxlen=3)",
    "{x} = collections.Counter('some words'); {y} = {{frozenset([1, {n}]): {x}}}",
    "{x} = dict.fromkeys([(1, {n}), 'k'], {y})",
    "class {C}:\n    __slots__ = ('n', 'm')\n    shared = {y}\n    def __init__(self, n=1): self.n = n\n"
    "    def put(self, n): self.m = [self.n, n]; return self\n{o} = {C}({x})",
    "@dataclasses.dataclass\nclass {C}:\n    n: object = None\n"
    "    rest: list = dataclasses.field(default_factory=list)\n"
    "    def put(self, n): self.rest.append(n); return self\n{o} = {C}({x})",
    "class {C}({C}):\n    def put(self, n): self.more = n; return super().put(n)\n{o} = {C}({x})",
    "class E(Exception): pass\n{x} = E({y}, {n})",
    "globals()['{x}'] = {y}; globals().pop('{z}', None)",
    "exec('{x} = [{y}]')",
    "{x}, *{y} = [{z}, {n}, {n}]",
    "{x} = [{y}] * 3; {x}[0] = {x}",
    "{f}()",
    "{x} = {f}()",
    "{x} = {f}",
    "class {C}:\n    shared = {x}\n    def __init__(self, n=1): self.n = n\n"
    "    def put(self, n): self.n = (self.n, n); return {y}",
    "{o} = {C}({x})",
    "{o} = {C}([{y}])",
    "{o}.put({n})",
    "{o}.n = {x}",
    "{x} = {o}.put",
    "{x} = [{o}, {o}.n]",
    "{C}.shared = {y}",
    "{v} = view('{file}', tokens={t})",
    "{v} = view('{file}', mode='running')",
    "{x} = view('{file}', pos='2')",
    "{v}.SetTokens({t})",
    "{v}.SetPos('{n}')",
    "{v}.Scroll(1)",
    "{v}.SetLod(0)",
    "{v}.Refresh()",
    "{v}.Run()",
    "{v}.Pause()",
    "{v}.min_turn_interval = 2",
    "{x} = [{v}]",
    "{x} = {v}",
    "{x} = str({v}.Render())",
    "show({v})",
    "{x} = repr(ls())",
    "{x} = read('{file}')",
    "{x} = [read('{file}'), {y}]",
    "write('{file}', 'written {n}\\n')",
    "edit('{file}', 'one', 'two{n}', count=None)",
    "open('{file}', 'a').write('line {n}\\n')",
    "with open('{file}', 'w') as __file: __file.write('one\\n' * {n})\n{x} = {n}",
    "{x} = str(bash('echo {n} >> {file}; cat {file}'))",
    "{x} = repr(grep('one'))",
    "{x} = repr(sorted(map(str, find('*.txt'))))",
)
"""What comes out the same when it runs again with what it saw: a rebuild has nothing to say of it."""

OTHER = (
    "{x} = random.random()",
    "{x} = [random.random(), {y}]",
    "{x}.append(random.random())",
    "{x} = time.time()",
    "{o}.n = [time.time(), {o}.n]",
    "{x} = os.urandom(4)",
    "{C}.shared = [os.urandom(2), {x}]",
    "{x} = Path('{file}').read_text()",
    "{x} = {{Path('{file}').stat().st_mtime_ns: {y}}}",
    "if random.random() < 0.5: {x} = [{y}]\nelse: del {y}",
    "{x} = Path('{file}').write_text('by pathlib {n}\\n')",
    "_ = Path('s/new.txt').write_text('{n}'); {x} = [{y}]; {y}.append({x})",
    "{x} = subprocess.run(['cat', '{file}'], capture_output=True).stdout",
    "os.makedirs('made/{n}', exist_ok=True); {x} = [{n}, {y}]; del {z}",
    "_ = os.system('true'); {v} = view('{file}'); {x} = [{v}]",
    "_ = os.system('true'); {v}.SetTokens({t}); {x} = {v}.tokens",
    "_ = os.system('true')\nclass {C}:\n    shared = [{n}]\n    def __init__(self, n=2): self.n = n\n"
    "    def put(self, n): self.n = [n]; return self\n{o} = {C}({x})",
    "_ = os.system('true'); {f} = lambda n={n}: (n, {y}); {x} = {f}()",
)
"""What acts outside, or sees what no second run sees."""

Kind = Literal["ordinary", "other", "stopped", "outside", "tick"]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens next. `source` is the statement; of "outside" the file that somebody writes, and what.

    "stopped" is cancelled `after` so many seconds.
    """

    kind: Kind
    source: str = ""
    text: str = ""
    after: float = 0.0


class Chance:
    """What happens in one session, by a seed."""

    def __init__(self, seed: int | str, *, probed: bool = True) -> None:
        self.random = random.Random(seed)
        self._probed = probed

    def beginning(self) -> list[Step]:
        return [Step("ordinary", PROBE), Step("ordinary", self._ending(BEGINNING))]

    def step(self, other: float = 0.3, *, late: bool = False) -> Step:
        """The next one; `other` is the share of statements that a rebuild cannot simply run again.

        With `late` some do not end before their time limit.
        """
        drawn = self.random.random()
        if late and self.random.random() < 0.05:
            return Step("other", self._ending(f"{self.statement(ORDINARY)}\ntime.sleep(100)"))
        if drawn < 0.1:
            return Step("outside", self.random.choice(FILES), f"one\nby somebody {self.random.randrange(100)}\n")
        if drawn < 0.15:
            return Step("tick", "/tick")
        if drawn < 0.22:
            waiting = f"{self.statement(ORDINARY)}\ntime.sleep(20)"
            return Step("stopped", self._ending(waiting), after=self.random.choice((0.0, 0.002, 0.02)))
        if drawn < 0.22 + other:
            return Step("other", self._ending(self.several(OTHER)))
        return Step("ordinary", self._ending(self.several(ORDINARY)))

    def several(self, templates: tuple[str, ...]) -> str:
        first = [self.statement(ORDINARY) for _ in range(self.random.choice((0, 0, 0, 1)))]
        return "\n".join([*first, self.statement(templates)])

    def statement(self, templates: tuple[str, ...]) -> str:
        pick = self.random.choice
        x, y, z = self.random.sample(DATA, 3)
        return pick(templates).format(
            x=x, y=y, z=z, f=pick(FUNCTIONS), C=pick(CLASSES), o=pick(OBJECTS), v=pick(VIEWS), file=pick(FILES),
            n=self.random.randint(1, 9), t=pick((30, 60, 2000)),
        )  # fmt: skip

    def _ending(self, source: str) -> str:
        """The statement with the probe at its end, however it ends."""
        if not self._probed:
            return source
        body = "\n".join("    " + line for line in source.strip().splitlines())
        return f"try:\n{body}\nfinally:\n    print(__probe())"
