"""Random acts, rewinds, undos and redos: the tree is again what it was, or each difference has a reason.

Another hand changes files meanwhile. What it wrote stays until a statement changes that file, whatever goes back: it is
merged, or the file is left.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from engine import Session
from engine.core.errors import InvalidRequestError
from engine.log.events.going_back import Rewound
from tests.engine.session.test_tree_changes import tree
from tests.support.hostile_repository import untouched_repository
from tests.support.sessions import events_of, session_in

pytestmark = pytest.mark.anyio
NAMES = ("a", "b.txt", "d", "d/a", "d/e/f", "g", "h i", "x.log", "\u00e9")
LONG = "long"
LINES = 12
STEPS = 12


def commands(rng: random.Random) -> str:
    """A shell command of one to four acts on a few names."""
    name, other = (f"'{rng.choice(NAMES)}'" for _ in range(2))
    acts = (
        f"mkdir -p $(dirname {name}) 2>/dev/null; echo {rng.random()} >> {name}",
        f"rm -rf {name}",
        f"mv {name} {other}",
        f"cp -r {name} {other}",
        f"mkdir -p {name}",
        f"ln -sfn {other} {name}",
        f"chmod {rng.choice(('600', '644', '755', '700'))} {name}",
        f"touch {name}",
        f"printf '\\0{rng.randrange(8)}' > {name}",
    )
    return "; ".join(f"({act}) 2>/dev/null" for act in rng.choices(acts, k=rng.randint(1, 4)))


def statements(rng: random.Random) -> str:
    """A statement that changes files by a command, a process, a tool or its own code."""
    name, line = rng.choice(NAMES), rng.randint(1, LINES)
    if rng.random() < 0.4:
        return f"bash('sed -i {line}{rng.choice(('d', f's/.*/{rng.random()}/', f'i{rng.random()}'))} {LONG}')"
    return rng.choice(
        (
            f"bash({commands(rng)!r})",
            f"bash({commands(rng)!r})",
            f"import subprocess; subprocess.run({commands(rng)!r}, shell=True)",
            f"write({name!r}, {str(rng.random())!r})",
            f"open({name!r}, 'w').write({str(rng.random())!r})",
            f"import os; os.symlink('a', {name!r})",
            f"import os; os.makedirs({name!r}, exist_ok=True)",
            f"import shutil; shutil.rmtree({name!r}, ignore_errors=True)",
            f"import os; os.remove({name!r})",
            f"import os; os.rename({name!r}, {rng.choice(NAMES)!r})",
        )
    )


class Anything:
    """What may be at a place that the other hand has changed since."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment] -- as Python sets it for a class with an equality of its own


class Machine:
    """A session, and the trees at the ends of its statements."""

    def __init__(self, session: Session, project: Path, rng: random.Random) -> None:
        self.session, self.project, self.rng = session, project, rng
        self.trees: dict[tuple[str, int], dict[str, object]] = {}
        self.undone: list[dict[str, object]] = []
        """The trees before each undo in a row."""
        self.by_hand: dict[str, str] = {}
        """What the other hand wrote into files that no statement has changed since."""

    @property
    def place(self) -> tuple[str, int]:
        branch = next(row.name for row in self.session.branches if row.is_active)
        return branch, len(self.session.cells)

    async def run(self) -> None:
        await self.session.cell("1")
        self.trees[self.place] = tree(self.project)
        for _ in range(STEPS):
            step: Callable[[], Awaitable[None]] = self.rng.choice(
                [self.act] * 5 + [self.hand] * 3 + [self.undo] * 2 + [self.rewind, self.redo]
            )
            await step()

    async def act(self) -> None:
        before = tree(self.project)
        await self.session.cell(statements(self.rng))
        now = self.trees[self.place] = tree(self.project)
        self.by_hand = {name: text for name, text in self.by_hand.items() if now.get(name) == before.get(name)}
        self.undone.clear()

    async def hand(self) -> None:
        """Somebody else puts a line into a file, in place of another one or not."""
        name = self.rng.choice((*[LONG] * 20, *NAMES))
        path = self.project / name
        if path.is_symlink() or not path.is_file() or b"\0" in path.read_bytes():
            return
        lines = path.read_text().splitlines(keepends=True)
        at, written = self.rng.randint(0, len(lines)), f"by hand {self.rng.random()}\n"
        lines[at : at + self.rng.randrange(2)] = [written]
        path.write_text("".join(lines))
        self.by_hand[name] = written
        self.trees = {place: {**found, name: Anything()} for place, found in self.trees.items()}
        self.undone.clear()

    def check_hand(self) -> None:
        lost = {name: text for name, text in self.by_hand.items() if text not in (self.project / name).read_text()}
        assert not lost, lost

    async def rewind(self) -> None:
        branch, last = self.place
        to = self.rng.randint(1, last)
        if (branch, to) not in self.trees:
            return
        wanted = self.trees[branch, to]
        await self.session.rewind(to)
        self.check(wanted)
        self.trees |= {
            (self.place[0], at): self.trees[branch, at] for at in range(1, to + 1) if (branch, at) in self.trees
        }
        self.undone.clear()

    async def undo(self) -> None:
        before = tree(self.project)
        try:
            await self.session.undo()
        except InvalidRequestError:
            return
        self.undone.append(before)
        self.check_hand()

    async def redo(self) -> None:
        try:
            await self.session.redo()
        except InvalidRequestError:
            return
        self.check_hand()
        if self.undone:
            self.check(self.undone.pop())

    def check(self, wanted: dict[str, object]) -> None:
        self.check_hand()
        now = tree(self.project)
        last = events_of(self.session, Rewound)[-1:]
        named = {os.path.relpath(left.path, self.project) for event in last for left in event.left}
        differ = {path for path in now.keys() | wanted.keys() if now.get(path) != wanted.get(path)}
        unexplained = {
            path for path in differ if not any(path == each or path.startswith(f"{each}/") for each in named)
        }
        found = "".join(f"{path}: {wanted.get(path)} became {now.get(path)}\n" for path in sorted(unexplained))
        assert not unexplained, found


async def run(seed: int, tmp_path: Path) -> int:
    """Run one machine; return the number of merges."""
    rng = random.Random(seed)
    project = tmp_path / str(seed)
    project.mkdir()
    for name in ("a", "b.txt", "g"):
        (project / name).write_text(f"{name}\n")
    (project / LONG).write_text("".join(f"{number}\n" for number in range(LINES)))
    with untouched_repository(project):
        async with session_in(project, state=tmp_path / "state") as session:
            try:
                await Machine(session, project, rng).run()
                return sum(file.is_merged for end in events_of(session, Rewound) for file in end.restored)
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise


@pytest.mark.parametrize("seed", range(20))
async def test_tree_is_again_what_it_was(seed: int, tmp_path: Path) -> None:
    await run(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(20, 1020, 100))
async def test_tree_is_again_what_it_was_in_a_thousand_runs(start: int, tmp_path: Path) -> None:
    assert sum([await run(seed, tmp_path) for seed in range(start, start + 100)])
