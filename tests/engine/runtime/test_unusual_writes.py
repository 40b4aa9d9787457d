"""Writes of other code by unusual ways and names: asked about as what they are, or refused; nothing is left open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.routed import routed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PREAMBLE = "import errno, io, os, threading; from pathlib import Path\n"
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
    "a buffer that was never flushed": ("kept = io.open('a', 'w'); kept.write('1')", "a"),
    "a thread": ("t = threading.Thread(target=lambda: Path('a').write_text('1')); t.start(); t.join()", "a"),
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


@pytest.mark.parametrize("name", WRITTEN)
async def test_it_is_written_as_what_it_is(name: str, tmp_path: Path) -> None:
    source, place = WRITTEN[name]
    async with routed(tmp_path) as worker:
        make(worker.cwd)
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
        assert outcome.exception is None, outcome.exception.traceback
        assert [operation for operation, _ in worker.asked if operation == "write"] == ["write"]
        written = str(next(path for operation, path in worker.asked if operation == "write"))
        assert (worker.cwd / written).resolve() == worker.cwd / place
        assert (worker.cwd / place).read_text() in ("1", "")


@pytest.mark.parametrize("name", REFUSED)
async def test_it_is_refused_and_the_worker_goes_on(name: str, tmp_path: Path) -> None:
    async with routed(tmp_path) as worker:
        make(worker.cwd)
        outcome = await worker.run(PREAMBLE + REFUSED[name], effects=worker.effects)
        assert outcome.exception is not None
        assert (worker.cwd / "old").read_text() == "old"
        assert sorted(path.name for path in worker.cwd.iterdir()) == ["circle", "leading", "link", "old", "sub"]
        assert await worker.value("1 + 1") == "2"


async def test_refusals_leave_nothing_open(tmp_path: Path) -> None:
    source = (
        "for number in range(200):\n"
        "    try: Path(f'a{number}').write_text('1')\n"
        "    except OSError: pass\n"
        "    try: os.close(os.open(f'b{number}', os.O_WRONLY | os.O_CREAT))\n"
        "    except OSError: pass\n"
    )
    async with routed(tmp_path) as worker:
        await worker.run(PREAMBLE)
        before = await worker.value(COUNT)
        worker.refusal = "no"
        assert (await worker.run(source, effects=worker.effects)).exception is None
        assert await worker.value(COUNT) == before
        assert list(worker.cwd.iterdir()) == []


async def test_as_many_open_files_as_there_may_be_end_no_worker(tmp_path: Path) -> None:
    source = (
        "kept = []\n"
        "try:\n"
        "    while True: kept.append(io.open(f'a{len(kept)}', 'w'))\n"
        "except OSError as e: met = e.errno"
    )
    async with routed(tmp_path) as worker:
        before = await worker.value(COUNT)
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
        assert outcome.exception is None, outcome.exception.traceback
        assert await worker.value("met == errno.EMFILE and len(kept) > 100") == "True"
        await worker.run("for each in kept: each.close()\nkept = each = None", effects=worker.effects)
        assert await worker.value(COUNT) == before
        assert (await worker.run("Path('b').write_text('1')", effects=worker.effects)).exception is None
        assert (worker.cwd / "b").read_text() == "1"


async def test_questions_of_many_threads_come_one_after_the_other_and_none_is_lost(tmp_path: Path) -> None:
    source = (
        "threads = [threading.Thread(target=Path(f'a{n}').write_text, args=(str(n),)) for n in range(30)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()"
    )
    async with routed(tmp_path) as worker:
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
        assert outcome.exception is None, outcome.exception.traceback
        assert {path.name: path.read_text() for path in worker.cwd.iterdir()} == {f"a{n}": str(n) for n in range(30)}
