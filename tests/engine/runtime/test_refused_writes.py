"""Writes of other code that are unusual or refused: what is asked, and what would work instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.routed import RoutedBench

PREAMBLE = "import ctypes, io, multiprocessing, os, sqlite3, subprocess, tempfile; from pathlib import Path\n"
OF_THE_PROJECT = "Write to a temporary directory (tempfile) instead; shutil.copy() then copies"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("sqlite3.connect('data.db').execute('create table t (x)')", "prevents this from writing {project}/data.db"),
        ("sqlite3.connect('there.db').execute('create table t (x)')", "prevents this from writing {project}/there.db"),
        (
            "multiprocessing.get_context('fork').Pool(1).apply(Path('a').write_text, ('x',))",
            "prevents this from writing {project}/a",
        ),
        (
            "raise PermissionError(13, \"Failed to open local file 'a.parquet'. Detail: x\")",
            "prevents this from writing the file",
        ),
    ],
)
async def test_what_is_not_routed_is_refused_with_what_would_work(worker: RoutedBench, source: str, note: str) -> None:
    (worker.cwd / "old").write_text("x")
    (worker.cwd / "there.db").touch()
    outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
    shown = outcome.exception.traceback
    assert note.format(project=worker.cwd) in shown, shown
    assert OF_THE_PROJECT in shown
    assert worker.asked == []
    assert sorted(path.name for path in worker.cwd.iterdir()) == ["old", "there.db"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
        "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 9))",
    ],
)
async def test_a_connection_is_refused_with_the_option_that_allows_it(worker: RoutedBench, source: str) -> None:
    outcome = await worker.run(source, effects=worker.effects)
    assert "The sandbox has no network. The user can turn it on" in outcome.exception.traceback


@pytest.mark.slow
@pytest.mark.parametrize("write", ["open('/usr/new', 'w')", "io.open('/usr/new', 'w')", "Path('/usr/new').touch()"])
async def test_file_outside_is_named_as_spelled(worker: RoutedBench, write: str) -> None:
    outcome = await worker.run(PREAMBLE + write, effects=worker.effects)
    assert "/usr/new" in outcome.exception.message
    assert "prevents statements from writing /usr/new, which is outside the project" in outcome.exception.traceback


@pytest.mark.slow
async def test_refusal_is_raised_by_close_with_number_and_path(worker: RoutedBench) -> None:
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


UNUSUAL = "import errno, io, os, threading; from pathlib import Path\n"
COUNT = "len(__import__('posix').listdir('/proc/self/fd'))"
WRITTEN = {
    "by way of devices": ("Path('/dev/..' + os.path.abspath('old')).write_text('1')", "old"),
    "by way of the root": ("Path('/proc/self/root' + os.path.abspath('old')).write_text('1')", "old"),
    "a line end in the name": ("Path('a\\nb').write_text('1')", "a\nb"),
    "an escape sequence in the name": ("Path('a\\x1b[2K').write_text('1')", "a\x1b[2K"),
    "spaces around the name": ("Path(' a ').write_text('1')", " a "),
    "a name like an option": ("Path('-rf').write_text('1')", "-rf"),
    "up and down": ("Path('sub/../sub/./a').write_text('1')", "sub/a"),
    "a directory by a link": ("Path('link/a').write_text('1')", "sub/a"),
    "a moved working directory": ("os.chdir('sub'); Path('a').write_text('1')", "sub/a"),
    "a directory's descriptor after it was moved": (
        "n = os.open('sub', os.O_RDONLY); os.rename('sub', 'moved')\n"
        "os.close(os.open('a', os.O_WRONLY | os.O_CREAT, dir_fd=n))",
        "moved/a",
    ),
}
REFUSED = {
    "by way of the working directory": "Path('/proc/self/cwd/old').write_text('1')",
    "by a descriptor of a place": "Path(f\"/proc/self/fd/{os.open('old', os.O_PATH)}\").write_text('1')",
    "by a descriptor for reading": "Path(f\"/proc/self/fd/{os.open('old', os.O_RDONLY)}\").write_text('1')",
    "one that has to be new": "os.open('old', os.O_WRONLY | os.O_CREAT | os.O_EXCL)",
    "a link that must not be followed": "os.open('leading', os.O_WRONLY | os.O_NOFOLLOW)",
    "a name that is too long": "Path('x' * 300).write_text('1')",
    "a path that is too long": "Path('/'.join(['x' * 100] * 50)).write_text('1')",
    "a NUL in the name": "Path('a\\0b').write_text('1')",
    "no such descriptor": "os.open('a', os.O_WRONLY | os.O_CREAT, dir_fd=12345)",
    "a directory": "Path('sub').write_text('1')",
    "times out of range": "os.utime('old', ns=(10**30, 0))",
    "permissions out of range": "os.chmod('old', 2**40)",
    "bits that run a program as its owner": "os.chmod('old', 0o4755)",
    "links in a circle": "Path('circle').write_text('1')",
}


def make(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "old").write_text("old")
    (project / "link").symlink_to("sub")
    (project / "leading").symlink_to("old")
    (project / "circle").symlink_to("circle")


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
async def test_it_is_written_as_what_it_is(worker: RoutedBench, name: str) -> None:
    source, place = WRITTEN[name]
    make(worker.cwd)
    outcome = await worker.run(UNUSUAL + source, effects=worker.effects)
    assert outcome.exception is None, outcome.exception.traceback
    assert [operation for operation, _ in worker.asked if operation == "write"] == ["write"]
    written = str(next(path for operation, path in worker.asked if operation == "write"))
    assert (worker.cwd / written).resolve() == worker.cwd / place
    assert (worker.cwd / place).read_text() in ("1", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
async def test_it_is_refused_and_the_worker_goes_on(worker: RoutedBench, name: str) -> None:
    make(worker.cwd)
    outcome = await worker.run(UNUSUAL + REFUSED[name], effects=worker.effects)
    assert outcome.exception is not None
    assert (worker.cwd / "old").read_text() == "old"
    assert sorted(path.name for path in worker.cwd.iterdir()) == ["circle", "leading", "link", "old", "sub"]
    assert await worker.value("1 + 1") == "2"


@pytest.mark.slow
async def test_refusals_leave_nothing_open(worker: RoutedBench) -> None:
    source = (
        "for number in range(200):\n"
        "    try: Path(f'a{number}').write_text('1')\n"
        "    except OSError: pass\n"
        "    try: os.close(os.open(f'b{number}', os.O_WRONLY | os.O_CREAT))\n"
        "    except OSError: pass\n"
    )
    await worker.run(UNUSUAL)
    before = await worker.value(COUNT)
    worker.refusal = "no"
    assert (await worker.run(source, effects=worker.effects)).exception is None
    assert await worker.value(COUNT) == before
    assert list(worker.cwd.iterdir()) == []


@pytest.mark.slow
async def test_exhausted_descriptors_end_no_worker(worker: RoutedBench) -> None:
    source = (
        "kept = []\n"
        "try:\n"
        "    while True: kept.append(io.open(f'a{len(kept)}', 'w'))\n"
        "except OSError as e: met = e.errno"
    )
    before = await worker.value(COUNT)
    outcome = await worker.run(UNUSUAL + source, effects=worker.effects)
    assert outcome.exception is None, outcome.exception.traceback
    assert await worker.value("met == errno.EMFILE and len(kept) > 100") == "True"
    await worker.run("for each in kept: each.close()\nkept = each = None", effects=worker.effects)
    assert await worker.value(COUNT) == before
    assert (await worker.run("Path('b').write_text('1')", effects=worker.effects)).exception is None
    assert (worker.cwd / "b").read_text() == "1"
