"""Commands, undos, redos and rewinds that are killed at any instant: each file is as before or as after.

The next opening finishes what had begun, and names what a command had changed. Somebody else has changed some of the
files since, so they are merged.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil
import pytest

from engine.session.working_tree.changes import CUT_SHORT
from tests.e2e.test_cards import words
from tests.support.agents import SECONDS, Agent, NoAnswerError
from tests.support.scripts import family, kill_each

FILES: Final = 40
LONGEST_SECONDS: Final = 0.25
ACT: Final = (
    "for i in $(seq 0 3 39); do printf 'two\\n-\\nend\\n' > f$i; done; rm f1 f4 f7; mv f10 moved; mkdir d; "
    "for i in $(seq 9); do echo new > d/$i; done; chmod 755 f2 f5; ln -sfn f3 f8"
)
COMMAND: Final = f"bash({ACT!r})"
OTHERS: Final = tuple(f"f{number}" for number in range(0, FILES, 6))
"""Files that the command changes, and somebody else after it."""
BY_HAND: Final = b"by hand\n"
Tree = Mapping[str, tuple[int, bytes]]


def tree_of(project: Path) -> Tree:
    """Each path with its kind and permissions, and the content of files and links."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in project.rglob("*"):
        mode = path.lstat().st_mode
        content = os.fsencode(os.readlink(path)) if stat.S_ISLNK(mode) else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(project))] = mode, content
    return found


def make_files(project: Path) -> None:
    project.mkdir(parents=True)
    for number in range(FILES):
        (project / f"f{number}").write_text("one\n-\nend\n")


def change_by_hand(project: Path, *trees: Tree) -> list[Tree]:
    """Somebody else appends a line to some files; return the trees with that."""
    for name in OTHERS:
        with (project / name).open("ab") as file:
            file.write(BY_HAND)
    return [{path: (mode, data + BY_HAND * (path in OTHERS)) for path, (mode, data) in tree.items()} for tree in trees]


def load(state: Path, session: str, project: Path) -> Agent:
    agent = Agent(state)
    agent.initialize()
    agent.call("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
    return agent


def crash(folder: Path, seed: int) -> str:
    """Kill an agent in the middle of something, and open its session again. Returns what it was."""
    chance = random.Random(seed)
    what = chance.choice(["command", "/undo", "/redo", "/rewind 0"])
    seconds, everybody = chance.uniform(0, LONGEST_SECONDS), chance.random() < 0.5
    print(f"seed {seed}: {what}, {'everybody' if everybody else 'the host'} after {seconds * 1000:.1f} ms")
    project = folder / "project"
    make_files(project)
    before = tree_of(project)
    agent = Agent(folder / "state")
    session = agent.open(project)
    agent.prompt(session, "1")
    if what != "command":
        agent.prompt(session, COMMAND)
    after = tree_of(project)
    if what == "/redo":
        agent.prompt(session, "/undo")
    if what != "command":
        before, after = change_by_hand(project, before, after)
    agent.begin_prompt(session, COMMAND if what == "command" else what)
    with contextlib.suppress(NoAnswerError):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            agent.next(left)
    host = psutil.Process(agent.process.pid)
    kill_each([host, *(family(host) if everybody else [])])
    agent.kill()
    if what == "command":
        check_command(folder, session, project, before)
        return what
    assert_each_is_one_of(tree_of(project), before, after)
    with load(folder / "state", session, project):
        assert tree_of(project) in (before, after)  # whole, either way
    return what


def assert_each_is_one_of(now: Tree, before: Tree, after: Tree) -> None:
    for path in {*now, *before, *after}:
        if ".rewindow" not in path:  # a file that is being written
            assert now.get(path) in (before.get(path), after.get(path)), path


def check_command(folder: Path, session: str, project: Path, before: Tree) -> None:
    """What the command had changed is named by the next opening, and left by an undo."""
    wait_until_still(project)
    changed = tree_of(project)
    with load(folder / "state", session, project) as agent:
        assert tree_of(project) == changed
        if changed == before:
            return
        named = "\n".join(words(update) for update in agent.updates("tool_call") + agent.updates("tool_call_update"))
        assert CUT_SHORT in named or "two" in named
        agent.prompt(session, "/undo")
        if CUT_SHORT in named:
            assert tree_of(project) == changed


def wait_until_still(project: Path) -> None:
    """Wait for a command that outlives its agent by a moment."""
    deadline, last = time.monotonic() + SECONDS, tree_of(project)
    while True:
        time.sleep(0.3)  # because nobody says when a stranger's process has ended
        assert time.monotonic() < deadline
        now = tree_of(project)
        if now == last:
            return
        last = now


@pytest.mark.parametrize("seed", range(4))
def test_files_of_a_killed_act_are_as_before_or_as_after(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, seed)


@pytest.mark.slow
def test_files_of_acts_killed_at_200_moments_are_as_before_or_as_after(tmp_path: Path) -> None:
    seen = {crash(tmp_path / str(seed), seed) for seed in range(4, 204)}
    assert len(seen) == 4
