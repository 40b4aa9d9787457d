"""Statements that end, cripple or exhaust their worker: each is a recorded execution, and the host is unharmed."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.core.errors import EnvironmentUnavailableError
from tests.support.environments import PATIENCE, spec_for, until
from tests.support.workers import WorkerBench, bench, processes_in

FRAMING = "import sys; f, p = (sys.modules['_rewindow.runtime.worker.' + each] for each in ('framing', 'protocol'))\n"
FORGED = "ex_forged"
SOCKET = (
    "import os, stat\n"
    "fd = next(n for n in range(1023, 900, -1) if os.path.exists(f'/proc/self/fd/{n}')"
    " and stat.S_ISSOCK(os.fstat(n).st_mode))\n"
)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import os; os._exit(3)", "exited with code 3"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
        ("import os; os.closerange(0, 1 << 16)", "closed the connection"),
        ("import os; os.closerange(3, 1 << 16); x = 1", "closed the connection"),
        (SOCKET + "os.write(fd, b'\\xff' * 64)\nwhile True: pass", "protocol violation"),
        (SOCKET + "os.write(fd, b'\\x05\\0\\0\\0junk!')\nwhile True: pass", "protocol violation"),
        (
            SOCKET + FRAMING + "os.write(fd, f.frame(p.Started()))\nwhile True: pass",
            "protocol violation: unexpected Started",
        ),
        (
            SOCKET
            + FRAMING
            + 'e = b\'{"kind":"condensation_request"}\'\n'
            + "os.write(fd, f.frame(p.Ran(execution_id='ex_forged', status='ok', events=(e,))))\nwhile True: pass",
            "must not report condensation_request",
        ),
        (
            SOCKET
            + FRAMING
            + 'e = b\'{"kind":"names_rebound","execution_id":null,"names":[],"seq":5}\'\n'
            + "os.write(fd, f.frame(p.Ran(execution_id='ex_forged', status='ok', events=(e,))))\nwhile True: pass",
            "with seq 5",
        ),
        (
            SOCKET
            + FRAMING
            + "for _ in range(2): os.write(fd, f.frame(p.Kept(execution_id='ex_forged')))\nwhile True: pass",
            "values of one execution were sent twice",
        ),
        (
            SOCKET
            + FRAMING
            + "from _rewindow.log.past import ValueGroup\n"
            + "groups = (ValueGroup((), b''),) * 33\n"
            + "os.write(fd, f.frame(p.Kept(execution_id='ex_forged', groups=groups)))\nwhile True: pass",
            "the worker sent too many values without a request",
        ),
        pytest.param(
            SOCKET
            + FRAMING
            + "import socket; s = socket.socket(fileno=os.dup(fd))\n"
            + "for n in range(3): s.sendall(f.frame(p.Content(str(n), bytes(30 << 20))))\nwhile True: pass",
            "more than 64 MiB of contents for one step",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_worker_that_dies_or_misbehaves_is_a_recorded_error(
    b: WorkerBench, tmp_path: Path, source: str, words: str
) -> None:
    outcome = await b.run("print('before', flush=True)\n" + source, execution_id=FORGED, keeps=True)
    assert outcome.status == "error"
    assert outcome.exception.type == "WorkerDied"
    assert words in outcome.exception.message
    assert outcome.stdout.text == "before\n"
    assert not b.environment.alive
    with pytest.raises(EnvironmentUnavailableError):
        await b.environment.project([], 100)
    await b.environment.start(spec_for(tmp_path))
    assert await b.value("1") == "1"


async def test_closed_standard_streams_are_repaired(b: WorkerBench) -> None:
    assert (await b.run("x = 1\nimport os\nfor fd in (0, 1, 2): os.close(fd)")).status == "ok"
    outcome = await b.run("import sys; print(x); print('e', file=sys.stderr); os.system('echo child; cat')")
    assert outcome.status == "ok"
    assert (outcome.stdout.text, outcome.stderr.text) == ("1\nchild\n", "e\n")


async def test_descriptors_used_up_are_the_statements_problem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    async with bench(tmp_path, open_files=128) as b:
        outcome = await b.run("kept = []\nwhile True: kept.append(open('/dev/null'))")
        assert outcome.exception.type == "OSError"
        assert (await b.run("h = view('a.txt', freq='Sync'); print('still')")).stdout.text == "still\n"
        await b.environment.tick(1, 0.0)
        assert await b.value("kept.clear(); open('a.txt').read()") == repr("text\n")


async def test_huge_allocation_is_a_memory_error_and_names_stay(tmp_path: Path) -> None:
    async with bench(tmp_path, data_bytes=256 << 20) as b:
        await b.run("kept = 1")
        outcome = await b.run("x = bytearray(8 << 30)")
        assert outcome.exception.type == "MemoryError"
        outcome = await b.run("l = []\nwhile True: l.append(bytearray(1 << 20))")
        assert outcome.exception.type in ("MemoryError", "WorkerDied")
        if b.environment.alive:
            assert await b.value("l.clear(); kept") == "1"


async def test_limits_are_in_force_and_nothing_is_inherited(tmp_path: Path) -> None:
    async with bench(tmp_path, open_files=256, data_bytes=1 << 30) as b:
        await b.run("import resource as r, os")
        assert await b.value("r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_CORE)") == "((256, 256), (0, 0))"
        assert await b.value("r.getrlimit(r.RLIMIT_DATA)") == str((1 << 30, 1 << 30))
        # 0, 1, 2, the socket, those for outlines and for copies, two spare pipes; listing the directory opens one more.
        assert await b.value("len(os.listdir('/proc/self/fd'))") == "9"
        assert await b.value("os.getsid(0) == os.getpgid(0) == os.getpid()") == "True"


async def test_a_fork_that_returns_from_the_statement_does_not_answer(b: WorkerBench) -> None:
    outcome = await b.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\npid > 0")
    assert (outcome.status, outcome.value) == ("ok", "True")
    outcome = await b.run("pid = os.fork()\nif not pid: 1 / 0\ncode = os.waitpid(pid, 0)[1] >> 8\ncode")
    assert outcome.value == "1"
    assert "ZeroDivisionError" in outcome.stderr.text
    outcome = await b.run(
        "pid = os.fork()\nif not pid:\n    try: read('x')\n    except RuntimeError as e: print(e, flush=True)\n"
        "if pid: os.waitpid(pid, 0)\n'once'"
    )
    assert outcome.value == "'once'"
    assert "the session's own process" in outcome.stdout.text


async def test_forged_result_puts_nothing_out_of_step(b: WorkerBench, tmp_path: Path) -> None:
    forge = "os.write(fd, f.frame(p.Ran(execution_id={!r}, status='ok', value='forged')))"
    outcome = await b.run(SOCKET + FRAMING + forge.format(FORGED), execution_id=FORGED)
    assert outcome.value == "forged"
    outcome = await b.run("1")
    assert "unexpected result of another execution" in outcome.exception.message
    assert not b.environment.alive
    await b.environment.start(spec_for(tmp_path))
    outcome = await b.run(SOCKET + FRAMING + forge.format("ex_other"))
    assert "unexpected result of another execution" in outcome.exception.message


LIMIT = 300 << 20
FILL = """
import mmap, os, time
SIZE = 100 << 20
def fill(memory):
    for start in range(0, len(memory), 1 << 20):
        memory[start:start + (1 << 20)] = b"x" * (1 << 20)
    return memory
def write(fd, size):
    for _ in range(size >> 20):
        os.write(fd, b"x" * (1 << 20))
    return fd
"""
TOO_MUCH = {
    "a mapping that is shared": "kept = fill(mmap.mmap(-1, 4 * SIZE))",
    "a memfd that is not mapped": "kept = write(os.memfd_create('kept'), 4 * SIZE)",
    "a memfd of which little is mapped": "fd = write(os.memfd_create('kept'), 4 * SIZE); fill(mmap.mmap(fd, 1 << 20))",
    "five children of which each may": "children = [os.fork() or (bytearray(SIZE), time.sleep(60)) for _ in range(5)]",
}
LITTLE = """
fd = os.memfd_create("kept")
os.truncate(fd, 2 * SIZE)
kept = fill(mmap.mmap(fd, 2 * SIZE))
children = [os.fork() or (kept[::4096], time.sleep(60)) for _ in range(3)]
time.sleep(0.8)
"""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if "not mapped" in kind else pytest.mark.slow) for kind in TOO_MUCH]
)
async def test_a_statement_whose_processes_hold_too_much_memory_is_ended(tmp_path: Path, kind: str) -> None:
    async with bench(tmp_path, data_bytes=LIMIT) as b:
        await b.run(FILL)
        outcome = await b.run(f"{TOO_MUCH[kind]}\ntime.sleep(60)")
        assert outcome.status == "error"
        assert outcome.exception.type == "WorkerDied"
        assert "of memory, more than the limit of 0.31 GB" in outcome.exception.message


@pytest.mark.slow
async def test_what_is_shared_is_counted_once(tmp_path: Path) -> None:
    async with bench(tmp_path, data_bytes=LIMIT) as b:
        await b.run(FILL)
        outcome = await b.run(LITTLE)
        assert outcome.exception is None


@pytest.mark.slow
async def test_what_a_short_statement_leaves_is_bounded_between_statements(tmp_path: Path) -> None:
    async with bench(tmp_path, data_bytes=LIMIT) as b:
        await b.run(FILL)
        assert (await b.run(TOO_MUCH["five children of which each may"])).status == "ok"
        with anyio.fail_after(PATIENCE):
            await until(lambda: not b.environment.alive)
            await until(lambda: processes_in(tmp_path) == 0)
        loss = await b.environment.loss()
        assert loss.startswith("the remaining processes of statements and its processes used ")
