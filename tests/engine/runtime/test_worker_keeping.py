"""Values that are pickled in a child of the worker, of which neither the worker nor its statements notice anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest

from engine.core.errors import EnvironmentUnavailableError
from engine.log.past import Preserved
from tests.support.environments import PATIENCE, lost_step, past, preserved, restore, until
from tests.support.workers import WorkerBench, bench, gone, running

SETUP = """
import os, sys, threading, time
from importlib import import_module
own = next(name for name in sys.modules if name.endswith("worker.keeping.writing"))
import_module(own).CODE_SECONDS = {seconds}
del own
class Coded:
    def __init__(self, code): self.code = code
    def __reduce__(self):
        exec(self.code)
        return Coded, (self.code,)
"""


@pytest.fixture
async def b(tmp_path: Path) -> AsyncIterator[WorkerBench]:
    async with bench(tmp_path) as opened:
        yield opened


async def set_up(b: WorkerBench, seconds: float = 10.0) -> psutil.Process:
    """Defines values that run code when they are pickled, for which they have so long; the worker's process."""
    await b.run(SETUP.format(seconds=seconds))
    await preserved(b)
    return psutil.Process(int(await b.value("os.getpid()") or 0))


async def after(b: WorkerBench, code: str, large: bool = False) -> Preserved:
    await b.run(f"coded, fine = [Coded({code!r})], [1]")
    return await preserved(b, large=large)


HANGS = {
    "while True: pass": "copying the value took longer than 0.2 s",
    "while True:\n try:\n  while True: pass\n except BaseException: pass": "copying the value took longer than 0.2 s",
    "lock = threading.Lock(); lock.acquire(); lock.acquire()": "copying the value took longer than 0.2 s",
    "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(1000)": (
        "copying the value took longer than 0.2 s"
    ),
    "os._exit(0)": "copying the value ended the copying process",
    "os.kill(os.getpid(), 9)": "copying it was not allowed to call os.kill",
    "import ctypes; ctypes.string_at(0)": "copying the value ended the copying process",
}


@pytest.mark.parametrize("code", HANGS)
async def test_value_that_hangs_or_exits_costs_its_own_copy(b: WorkerBench, code: str) -> None:
    worker = await set_up(b, 0.2)
    found = await after(b, code)
    assert found.unkept == {"coded": HANGS[code]}
    assert [group.names for group in found.groups] == [("fine",)]
    assert worker.children() == []
    assert await b.value("fine.append(2); fine, os.getpid()") == f"([1, 2], {worker.pid})"


async def test_one_that_hangs_leaves_the_copies_after_it_alone(b: WorkerBench) -> None:
    await set_up(b, 0.2)
    await b.run("a, b = [Coded('while True: pass')], [Coded('pass')]")
    found = await preserved(b)
    assert found.unkept == {"a": "copying the value took longer than 0.2 s"}
    assert [group.names for group in found.groups] == [("b",)]


async def test_code_that_breaks_its_process_harms_only_the_child(b: WorkerBench) -> None:
    worker = await set_up(b)
    await b.run("import io; kept = io.open('kept.txt', 'w'); held = os.pipe()")
    await preserved(b)
    code = (
        "print('unheard', flush=True); os.write(1, b'unheard'); os.write(2, b'unheard')\n"
        "import ctypes; libc = ctypes.CDLL(None); libc.puts(b'unheard'); pid = libc.fork()\n"
        "if pid == 0: time.sleep(1000)\n"
        "try: kept.write('x' * 100_000)\nexcept OSError: pass\n"
        "os.closerange(0, 65536)"
    )
    b.output.clear()
    assert (await after(b, code)).groups[0].names == ("fine",)
    assert worker.children(recursive=True) == []
    outcome = await b.run("print('mine')")
    assert (outcome.stdout.text, outcome.stderr.text) == ("mine\n", "")
    assert ("".join(text for _, text in b.output), {name for name, _ in b.output}) == ("mine\n", {"stdout"})
    assert (b.cwd / "kept.txt").read_text() == ""


async def test_next_statement_runs_during_copying(b: WorkerBench) -> None:
    worker = await set_up(b)
    await b.run("reads, writes = os.pipe()\ncoded = [Coded('while not os.path.exists(\"go\"): time.sleep(0.01)'), 1]")
    assert (await b.environment.preserve(False)).pending
    # The child keeps no pipe open that the statement closes.
    assert await b.value("coded.append(2); os.close(writes); os.read(reads, 1)") == "b''"
    # What a stopped statement has started is ended, and the child is none of that.
    started = "import subprocess; started = subprocess.Popen(['sleep', '60'])"
    stopped = await b.interrupted(f"{started}\nprint('on', flush=True)\nwhile True: pass")
    assert stopped.status == "cancelled"
    assert await b.value("started.wait()") == "-9"
    assert (await b.environment.collect()).pending
    (b.cwd / "go").touch()
    found = await collected(b)
    await until(lambda: not worker.children())
    await restore(b, past(SETUP.format(seconds=1)), lost_step(found))
    assert await b.value("len(coded), coded[1]") == "(2, 1)"


async def collected(b: WorkerBench) -> Preserved:
    found = Preserved(pending=True)
    with anyio.fail_after(PATIENCE):
        while found.pending:
            await anyio.sleep(0.005)
            found = await b.environment.collect()
    return found


async def test_statement_waits_for_its_own_children_alone(b: WorkerBench) -> None:
    await set_up(b)
    await b.run("import signal\nsignal.signal(signal.SIGCHLD, lambda *_: 1 / 0)")
    await preserved(b)
    await b.run("coded = [Coded('time.sleep(0.05)')]")
    assert (await b.environment.preserve(False)).pending
    outcome = await b.run("os.wait()")
    assert outcome.exception.type == "ChildProcessError"
    assert [group.names for group in (await collected(b)).groups] == [("coded",)]
    # Its handler would have raised in the worker itself.
    assert await b.value("1 + 1") == "2"


async def test_a_statement_that_closes_all_descriptors_takes_no_copy(b: WorkerBench) -> None:
    await set_up(b)
    await b.run("coded = [Coded('time.sleep(0.05)')]")
    assert (await b.environment.preserve(False)).pending
    await b.run("os.closerange(3, 1000)")
    assert [group.names for group in (await collected(b)).groups] == [("coded",)]


async def test_large_values_are_kept_in_order_each_statements_by_itself(b: WorkerBench) -> None:
    await set_up(b)
    for name in ("one", "two"):
        await b.run(f"{name} = list(range(100_000)); {name}_too = [Coded('pass')]")
        assert (await b.environment.preserve(True)).pending
    assert [group.names for group in (await collected(b)).groups] == [("one",), ("one_too",)]
    assert [group.names for group in (await collected(b)).groups] == [("two",), ("two_too",)]
    assert await b.environment.collect() == Preserved()


async def test_more_children_than_are_allowed_at_once_are_not_begun(b: WorkerBench) -> None:
    worker = await set_up(b)
    for number in range(5):
        await b.run(f"coded_{number} = [Coded('time.sleep(1000)')]")
        found = await b.environment.preserve(False)
    assert found.unkept == {"coded_4": "too much was copied at the same time"}
    # Each has forked once more, for code of the statement's own.
    await until(lambda: len(worker.children(recursive=True)) == 8)
    children = [child.pid for child in worker.children(recursive=True)]
    await b.environment.close()
    await gone(*children)


async def test_the_children_end_with_the_worker(b: WorkerBench) -> None:
    worker = await set_up(b)
    await b.run("coded = [Coded('time.sleep(1000)')]")
    assert (await b.environment.preserve(False)).pending
    await until(lambda: len(worker.children(recursive=True)) == 2)
    children = [child.pid for child in worker.children(recursive=True)]
    worker.kill()
    await gone(*children)
    assert not any(map(running, children))
    with pytest.raises(EnvironmentUnavailableError):
        await b.environment.collect()


async def test_threads_do_not_prevent_copies(b: WorkerBench) -> None:
    await set_up(b)
    await b.run("stop = threading.Event(); thread = threading.Thread(target=stop.wait, daemon=True); thread.start()")
    await preserved(b)
    found = await after(b, "pass")
    assert {name for group in found.groups for name in group.names} == {"coded", "fine"}
    assert await b.value("thread.is_alive()") == "True"


async def test_signals_of_statements_are_not_handled_in_the_child(b: WorkerBench) -> None:
    await set_up(b)
    await b.run("import signal\ndef handle(*_): open('handled', 'w')\nsignal.signal(signal.SIGTERM, handle)")
    await preserved(b)
    found = await after(b, "import ctypes; ctypes.CDLL(None).kill(os.getpid(), 15)")
    assert found.unkept == {"coded": "copying the value ended the copying process"}
    assert not (b.cwd / "handled").exists()


async def test_replaced_python_functions_do_not_affect_copies(b: WorkerBench) -> None:
    await set_up(b)
    await b.run("os.fork = os.memfd_create = os.pwrite = os.pidfd_open = os.waitpid = time.monotonic = None")
    await b.run("coded, fine = [Coded('')], [1]")
    found = await preserved(b)
    assert {name for group in found.groups for name in group.names} == {"coded", "fine"}
    assert found.unkept == {}
    assert await b.value("os.fork, time.monotonic") == "(None, None)"
