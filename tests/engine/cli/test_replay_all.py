"""`rewindow replay --all` reports each session, and changes neither sessions nor their directories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from engine.cli.going_back import _NEEDS_SESSION, _NOT_WITH_ALL, _ONLY_WITH_ALL
from engine.cli.replay_all import NO_SESSIONS
from engine.cli.replay_cluster import replay_there
from engine.cli.replayed import Replayed
from engine.core.clock import SystemClock
from engine.core.errors import SessionNotFoundError
from engine.core.ids import SessionId
from engine.log.events.session import DomainEntered
from engine.log.store import open_store
from tests.support.commands import COMMAND, SECONDS, Home
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import session_in

UNGUARDED = """
import ctypes
def by_c(libc):
    f = libc.open(b'by_c.txt', 0o1101, 0o644)
    libc.write(f, b'x', 1), libc.close(f)
by_c(ctypes.CDLL(None))
"""
"""Writes a file without Python, which no audit hook sees."""


def session_of(home: Home, project: Path, *sources: str) -> str:
    async def make() -> str:
        with closing(open_store(home.state, SystemClock())) as store:
            async with session_in(project, store, state=home.state) as session:
                for source in sources:
                    await session.cell(source)
                return session.session_id

    project.mkdir(exist_ok=True)
    return anyio.run(make)


def replayed(home: Home, *arguments: str, code: int = 0, **variables: str) -> Any:
    done = home.run("replay", "--all", "--json", *arguments, **variables)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def stored(home: Home) -> list[object]:
    with closing(open_store(home.state, SystemClock())) as store:
        return [(row, list(store.load(row.session_id))) for row in store.rows()]


def files(project: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_each_session_has_a_row_and_nothing_is_written(empty: Home, sandbox: str) -> None:
    one, other = empty.path / "one", empty.path / "other"
    one.mkdir()
    (one / "a.txt").write_text("1")
    same = session_of(empty, one, "x = read('a.txt'); w = write('b.txt', x * 2)", "import os; os.getcwd()", UNGUARDED)
    clock = session_of(empty, other, "y = 1", "import time; t = time.time_ns(); t")
    bare = session_of(empty, other)
    (one / "by_c.txt").unlink()
    place = empty.path / "tmp"
    place.mkdir()
    before = stored(empty), files(one), files(other)
    found = replayed(empty, "--jobs", "2", code=1, TMPDIR=str(place), REWINDOW_SANDBOX=sandbox)
    rows = {row["session_id"]: row for row in found["sessions"]}
    assert [row["session_id"] for row in found["sessions"]] == [bare, clock, same]
    assert (rows[same]["outcome"], rows[same]["statements"], rows[same]["differences"]) == ("same", 3, [])
    assert rows[clock]["outcome"] == "different"
    assert {each["statement"] for each in rows[clock]["differences"]} == {2}
    assert rows[bare]["outcome"] == "empty"
    assert found["summary"] == {"same": 1, "different": 1, "failed": 0, "empty": 1, "not_replayed": 0}
    assert (stored(empty), files(one), files(other)) == before
    assert list(place.iterdir()) == []
    shown = empty.run("replay", "--all").stdout
    assert f"{clock}:\n- statement 2: " in shown
    assert shown.endswith("3 sessions: 1 same, 1 different, 1 empty.\n")


CONNECTS = """
import ctypes
def connected(libc):
    found = libc.socket(2, 1, 0)
    return found >= 0 and not libc.close(found)
connected(ctypes.CDLL(None))
"""
"""Whether the kernel gives the statement a socket of TCP."""


def test_sandboxed_statements_run_again_in_the_copy_without_a_network(empty: Home) -> None:
    project = empty.path / "one"
    project.mkdir()
    writes = "n = open('by_code.txt', 'w').write('x')\nn"

    async def make() -> str:
        with closing(open_store(empty.state, SystemClock())) as store:
            settings: dict[str, object] = {"sandbox": "auto"}
            model = AnsweringModel(runs(writes, CONNECTS))
            async with session_in(project, store, state=empty.state, settings=settings, model=model) as session:
                session.set_mode("auto")
                session.set_option("network", "on")
                await session.accept("go").end()
                assert any(isinstance(event, DomainEntered) and event.held for event in session.events)
                return session.session_id

    session = anyio.run(make)
    (project / "by_code.txt").unlink()
    (row,) = replayed(empty, code=1, REWINDOW_SANDBOX="auto")["sessions"]
    assert (row["session_id"], row["statements"], row["outcome"]) == (session, 2, "different")
    assert [(each["statement"], each["before"], each["after"]) for each in row["differences"]] == [(2, "True", "False")]
    assert not (project / "by_code.txt").exists()


def test_a_node_replays_a_session_in_a_process_without_ray_s_variables(
    empty: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(empty, empty.path / "one", "1 + 1")
    variables = {**empty.variables, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    data = replay_there(SessionId(session), variables)
    found = msgspec.msgpack.decode(data, type=Replayed)
    assert (found.session_id, found.outcome, found.statements) == (session, "same", 1)
    missing = msgspec.msgpack.decode(replay_there(SessionId("none"), variables), type=Replayed)
    assert (missing.outcome, missing.detail) == ("failed", str(SessionNotFoundError(SessionId("none"))))
    environs: list[dict[str, str]] = []

    def started(*_: object, env: dict[str, str], **__: object) -> None:
        environs.append(env)
        raise FileNotFoundError

    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(FileNotFoundError):
        replay_there(SessionId(session), {"REWINDOW_STORE": "sqlite"})
    assert environs[0]["REWINDOW_STORE"] == "sqlite"
    assert "RAY_AUTH_TOKEN" not in environs[0]


def test_sessions_are_chosen_by_directory_and_time(empty: Home) -> None:
    one = session_of(empty, empty.path / "one", "1")
    session_of(empty, empty.path / "other", "2")
    found = replayed(empty, "--cwd", str(empty.path / "one"), "--since", "1h")
    assert [row["session_id"] for row in found["sessions"]] == [one]
    assert found["summary"]["same"] == 1
    assert empty.run("replay", "--all", "--cwd", str(empty.path)).stdout == f"{NO_SESSIONS}\n"


def test_a_session_that_cannot_be_replayed_stops_no_other(empty: Home) -> None:
    ends = session_of(empty, empty.path / "ends", "import pathlib, os; pathlib.Path('flag').exists() and os._exit(3)")
    one = session_of(empty, empty.path / "one", "1")
    (empty.path / "ends" / "flag").touch()
    rows = {row["session_id"]: row for row in replayed(empty, code=1)["sessions"]}
    assert rows[ends]["outcome"] == "failed"
    assert rows[ends]["detail"].startswith("statement 1 ")
    assert rows[one]["outcome"] == "same"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), _NEEDS_SESSION),
        (("ses_",), _NEEDS_SESSION),
        (("--all", "ses_"), _NOT_WITH_ALL),
        (("--all", "--from", "1"), _NOT_WITH_ALL),
        (("ses_", "--from", "1", "--jobs", "2"), _ONLY_WITH_ALL),
    ],
)
def test_misuse_is_named(empty: Home, arguments: tuple[str, ...], said: str) -> None:
    done = empty.run("replay", *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("|", "").replace("│", "").split())


def test_an_interrupt_prints_the_sessions_that_are_done(empty: Home) -> None:
    sleeps = "import time, pathlib; time.sleep(60 if pathlib.Path('flag').exists() else 0)"
    session_of(empty, empty.path / "slow", sleeps)
    done = session_of(empty, empty.path / "quick", "1")
    (empty.path / "slow" / "flag").touch()
    place = empty.path / "tmp"
    place.mkdir()
    process = subprocess.Popen(
        [*COMMAND, "replay", "--all", "--jobs", "1", "--json"],
        env={**empty.variables, "TMPDIR": str(place)},
        cwd=empty.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + SECONDS
    while not any(place.glob("*/0/flag")):
        assert time.monotonic() < deadline
        time.sleep(0.02)  # no message says that the second session runs
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=SECONDS)
    found = json.loads(output)
    assert process.returncode == 130
    assert [row["session_id"] for row in found["sessions"]] == [done]
    assert found["summary"]["not_replayed"] == 1
    assert os.listdir(place) == []
