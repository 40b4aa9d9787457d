"""What the kernel refuses a statement in a domain says what it is about, and what would work instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.routed import routed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
PREAMBLE = "import ctypes, io, multiprocessing, os, sqlite3, subprocess, tempfile; from pathlib import Path\n"
OF_THE_PROJECT = "It works in a temporary directory (tempfile); shutil.copy() then puts"


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("sqlite3.connect('data.db').execute('create table t (x)')", "from writing {project}/data.db"),
        ("sqlite3.connect('there.db').execute('create table t (x)')", "from writing {project}/there.db"),
        ("multiprocessing.get_context('fork').Pool(1).apply(Path('a').write_text, ('x',))", "from writing {project}/a"),
        ("import posix; posix.open('a', os.O_WRONLY | os.O_CREAT)", "from writing {project}/a"),
        ("import posix; posix.open('old', os.O_RDWR)", "from writing {project}/old"),
        ("raise PermissionError(13, \"Failed to open local file 'a.parquet'. Detail: x\")", "from writing the file"),
        ("try: import posix; posix.mkdir('d')\nexcept OSError as e: raise ValueError('x') from e", "{project}/d"),
    ],
)
async def test_what_is_not_routed_is_refused_with_what_would_work(tmp_path: Path, source: str, note: str) -> None:
    async with routed(tmp_path) as worker:
        (worker.cwd / "old").write_text("x")
        (worker.cwd / "there.db").touch()
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
        assert outcome.exception is not None
        shown = outcome.exception.traceback
        assert note.format(project=worker.cwd) in shown, shown
        assert OF_THE_PROJECT in shown
        assert worker.asked == []
        assert sorted(path.name for path in worker.cwd.iterdir()) == ["old", "there.db"]


@pytest.mark.parametrize(
    "source",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
        "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 9))",
    ],
)
async def test_a_connection_is_refused_with_the_option_that_allows_it(tmp_path: Path, source: str) -> None:
    async with routed(tmp_path) as worker:
        outcome = await worker.run(source, effects=worker.effects)
        assert outcome.exception is not None
        assert "The sandbox has no network. The user can turn it on" in outcome.exception.traceback


@pytest.mark.parametrize(
    "source",
    [
        "Path('no').read_text()",
        "Path('a').write_text('x')",
        "os.remove('old')",
        "raise PermissionError('mine')",
        "raise PermissionError(13, 'mine', 'a')",
    ],
)
async def test_what_says_by_itself_why_it_was_refused_gets_no_note(tmp_path: Path, source: str) -> None:
    async with routed(tmp_path) as worker:
        worker.refusal = "The user rejected this change."
        (worker.cwd / "old").write_text("x")
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
        assert outcome.exception is not None
        assert "sandbox" not in outcome.exception.traceback


@pytest.mark.parametrize("write", ["open('/usr/new', 'w')", "io.open('/usr/new', 'w')", "Path('/usr/new').touch()"])
async def test_a_file_outside_is_named_as_it_was_spelled_with_what_would_work(tmp_path: Path, write: str) -> None:
    async with routed(tmp_path) as worker:
        outcome = await worker.run(PREAMBLE + write, effects=worker.effects)
        assert outcome.exception is not None
        assert outcome.exception.message.endswith(": '/usr/new'")
        assert "from writing /usr/new, which is outside of the project" in outcome.exception.traceback


async def test_a_refusal_is_raised_by_close_with_a_number_and_the_path(tmp_path: Path) -> None:
    async with routed(tmp_path) as worker:
        worker.refusal = "The user rejected this change."
        for source in (
            "f = io.open('a', 'w'); f.write('x')\ntry: f.close()\n",
            "f = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(f, b'x')\ntry: os.close(f)\n",
            "try: os.mkdir('a')\n",
            "try: Path('a').write_text('x')\n",
            "try: os.truncate('old', 0)\n",
        ):
            (worker.cwd / "old").write_text("x")
            ask = "except PermissionError as e: found = e.errno, e.strerror, e.filename in ('a', 'old') or e.filename"
            outcome = await worker.run(PREAMBLE + source + ask, effects=worker.effects)
            assert outcome.exception is None, outcome.exception.traceback
            assert await worker.value("found[:2]") == "(13, 'The user rejected this change')"
        assert [path.name for path in worker.cwd.iterdir()] == ["old"]
