"""Writes and edits that are killed at any instant: each file is as before or as after, and nothing lies beside it."""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.support.agents import SECONDS, Agent, NoAnswerError
from tests.support.scripts import family, kill_each

LINES: Final = 2_000
LONGEST_SECONDS: Final = 0.6
STATEMENT: Final = f"""
import itertools
for n in itertools.count(1):
    text = f"version {{n}}\\n" * {LINES}
    write("written.txt", text)
    edit("edited.txt", f"<{{n - 1}}>", f"<{{n}}>", count=2)
    with open("opened.txt", "w") as file:
        _ = file.write(text)
    write(f"made/{{n}}/new.txt", text)
    if n == 1:
        print("begun", flush=True)
"""


def make_files(project: Path) -> None:
    project.mkdir()
    for name in ("written.txt", "opened.txt"):
        (project / name).write_text("version 0\n" * LINES)
        (project / name).chmod(0o640)
    (project / "edited.txt").write_text("<0>\n" + "between\n" * LINES + "<0>\n")


def assert_whole(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) == LINES, (path, len(lines))
    assert len(set(lines)) == 1, path


def assert_files_are_whole(project: Path) -> None:
    for name in ("written.txt", "opened.txt"):
        assert_whole(project / name)
        assert (project / name).stat().st_mode & 0o777 == 0o640
    first, *between, last = (project / "edited.txt").read_text().splitlines()
    assert first == last
    assert between == ["between"] * LINES
    for path in project.glob("made/*/new.txt"):
        assert_whole(path)


def temporary(project: Path) -> list[Path]:
    """What is there that nobody has asked for."""
    wanted = {"written.txt", "edited.txt", "opened.txt", "new.txt"}
    return [path for path in project.rglob("*") if path.is_file() and path.name not in wanted]


def crash(tmp_path: Path, seed: int) -> bool:
    """Whether the kill left a temporary file for the next start."""
    chance = random.Random(seed)
    seconds, everybody = chance.uniform(0, LONGEST_SECONDS), chance.random() < 0.5
    print(f"seed {seed}: {'everybody' if everybody else 'the host'} after {seconds * 1000:.1f} ms")
    project = tmp_path / "project"
    make_files(project)
    agent = Agent(tmp_path / "state")
    session = agent.open(project)
    agent.begin_prompt(session, STATEMENT)
    deadline = time.monotonic() + SECONDS
    while not (project / "made" / "1" / "new.txt").exists():
        assert time.monotonic() < deadline
        with contextlib.suppress(NoAnswerError):
            agent.next(0.01)
    with contextlib.suppress(NoAnswerError):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            agent.next(left)
    host = psutil.Process(agent.process.pid)
    kill_each([host, *(family(host) if everybody else [])])
    agent.kill()
    assert_files_are_whole(project)
    left_behind = bool(temporary(project))
    with Agent(tmp_path / "state") as again:
        again.initialize()
        deadline = time.monotonic() + SECONDS
        while temporary(project) or os.listdir(tmp_path / "state" / "writing"):
            assert time.monotonic() < deadline, temporary(project)
            time.sleep(0.01)  # because nobody says when the sweep is over
    assert_files_are_whole(project)
    return left_behind


@pytest.mark.slow
def test_writes_killed_at_100_moments_leave_only_whole_files(tmp_path: Path) -> None:
    left_behind = 0
    for seed in range(2, 102):
        (tmp_path / str(seed)).mkdir()
        left_behind += crash(tmp_path / str(seed), seed)
    # Or else the instants were not those that matter.
    assert left_behind
