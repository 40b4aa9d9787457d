"""What statements did outside is done once: many ways to act, at once and later, none of them repeated by a reload."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import SECONDS, Agent
from tests.support.scripts import last_value, load, logged

pytestmark = pytest.mark.slow

AT_ONCE = {
    "open": "import io\nwith io.open(PATH, 'w') as f: _ = f.write('x')",
    "os_open": "import os; os.close(os.open(PATH, os.O_CREAT | os.O_WRONLY))",
    "pathlib": "from pathlib import Path; _ = Path(PATH).write_text('x')",
    "copy": "import shutil; _ = shutil.copy(GIVEN, PATH)",
    "rename": "import os; os.rename(GIVEN, PATH)",
    "mkdir": "import os; os.mkdir(PATH)",
    "symlink": "import os; os.symlink(GIVEN, PATH)",
    "mkfifo": "import os; os.mkfifo(PATH)",
    "mknod": "import os; os.mknod(PATH)",
    "sqlite_connect": "import sqlite3; c = sqlite3.connect(PATH); _ = c.execute('create table t (x)'); c.close()",
    "sqlite_attach": "import sqlite3; m = sqlite3.connect(':memory:'); _ = m.execute('attach ? as a', (PATH,)); "
    "_ = m.execute('create table a.t (x)'); m.close()",
    "sqlite_vacuum": "import sqlite3; v = sqlite3.connect(':memory:'); _ = v.execute('create table t (x)'); "
    "v.commit(); _ = v.execute('vacuum into ?', (PATH,)); v.close()",
    "unix_socket": "import socket; u = socket.socket(socket.AF_UNIX); u.bind(PATH); u.close()",
    "tcp": "import socket; socket.create_connection(('127.0.0.1', PORT)).close()",
    "udp": "import socket; _ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP))",
    "http": "import urllib.request; _ = urllib.request.urlopen('http://127.0.0.1:HTTP/').read()",
    "subprocess": "import subprocess; _ = subprocess.run(['touch', PATH])",
    "system": "import os; _ = os.system('touch ' + PATH)",
    "fork": "import os\nif os.fork() == 0:\n    os.mkdir(PATH); os._exit(0)\n_ = os.wait()",
    "posix_spawn": "import os; _ = os.waitpid(os.posix_spawn('/usr/bin/touch', ['touch', PATH], {}), 0)",
    "spawn": "import os, multiprocessing\n"
    "p = multiprocessing.get_context('spawn').Process(target=os.mkdir, args=(PATH,))\np.start(); p.join()",
    "forkserver": "import os, multiprocessing\n"
    "p = multiprocessing.get_context('forkserver').Process(target=os.mkdir, args=(PATH,))\np.start(); p.join()",
    "handler": "import os, signal\n_ = signal.signal(signal.SIGVTALRM, lambda *_: os.mkdir(PATH))\n"
    "_ = signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)\nwhile not os.path.exists(PATH): pass",
    "zipfile": "import zipfile; zipfile.ZipFile(PATH, 'w').close()",
    "logging": "import logging; logging.FileHandler(PATH).close()",
    "asyncio": "import asyncio\nasync def touch(): await (await asyncio.create_subprocess_exec('touch', PATH)).wait()\n"
    "asyncio.run(touch())",
    "process_pool": "import concurrent.futures, multiprocessing\n"
    "with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('fork')) as pool: "
    "pool.submit(os.mkdir, PATH).result()",
    "atexit": "import atexit, os; _ = atexit.register(os.mkdir, PATH); atexit._run_exitfuncs()",
    "finalizer": "import os, weakref\nclass Held: pass\n"
    "held = Held(); _ = weakref.finalize(held, os.mkdir, PATH); del held",
    "del": "class Closing:\n    def __del__(self): os.mkdir(PATH)\nClosing(); None",
    "shared_memory": "import _posixshmem, os\n"
    "os.close(_posixshmem.shm_open('/SHM', os.O_CREAT | os.O_RDWR, mode=0o600))",
}
"""Statements that act while they run, by the name of what shows it."""

LATER = {
    "thread": "import os, threading, time\ndef act(path):\n    time.sleep(0.3); os.mkdir(path)\n"
    "thread = threading.Thread(target=act, args=(PATH,)); thread.start()",
    "thread_of_a_thread": "inner = []\ndef begin():\n    time.sleep(0.1)\n"
    "    inner.append(threading.Thread(target=act, args=(PATH,))); inner[0].start()\n"
    "outer = threading.Thread(target=begin); outer.start()",
    "timer": "timer = threading.Timer(0.3, os.mkdir, (PATH,)); timer.start()",
    "executor": "from concurrent.futures import ThreadPoolExecutor\nexecutor = ThreadPoolExecutor(1)\n"
    "busy = executor.submit(time.sleep, 0.3); future = executor.submit(os.mkdir, PATH)",
    "pool": "from multiprocessing.pool import ThreadPool\npool = ThreadPool(1)\n"
    "result = pool.apply_async(act, (PATH,))",
    "loop": "import asyncio\nloop = asyncio.new_event_loop(); called = threading.Event()\n"
    "def act_in_loop():\n    try: os.mkdir(PATH)\n    finally: called.set()\n"
    "looping = threading.Thread(target=loop.run_forever, daemon=True); looping.start()\n"
    "_ = loop.call_soon_threadsafe(loop.call_later, 0.3, act_in_loop)",
    "scheduler": "import sched\nscheduler = sched.scheduler(); _ = scheduler.enter(0.3, 1, os.mkdir, (PATH,))\n"
    "scheduling = threading.Thread(target=scheduler.run); scheduling.start()",
    "alarm": "import signal\n_ = signal.signal(signal.SIGALRM, lambda *_: os.mkdir(PATH))\n"
    "_ = signal.setitimer(signal.ITIMER_REAL, 0.3)",
}
"""Statements that end at once, and what they started acts some time later."""

COURSE = (
    "busy.result(10); future.exception(10); result.wait(10); called.wait(10)\n"
    "[t.join(10) for t in (thread, outer, timer, scheduling)]; [t.join(10) for t in inner]\n"
    "[t.is_alive() for t in (thread, outer, timer, scheduling)], "
    "[signal.getitimer(signal.ITIMER_REAL)]"
)
"""Waits until everything in the background has run its course, whatever became of it."""

HANDED = {
    "to_executor": "executor.submit(os.mkdir, PATH).result(10)",
    "to_pool": "pool.apply(os.mkdir, (PATH,))",
    "to_pool_as_map": "pool.map(os.mkdir, [PATH])",
    "to_loop": "async def make(): os.mkdir(PATH)\nasyncio.run_coroutine_threadsafe(make(), loop).result(10)",
    "to_loop_executor": "async def hand(): await loop.run_in_executor(None, os.mkdir, PATH)\n"
    "asyncio.run_coroutine_threadsafe(hand(), loop).result(10)",
    "by_callback": "done = threading.Event(); f = executor.submit(int)\n"
    "f.add_done_callback(lambda _: (os.mkdir(PATH), done.set())); _ = done.wait(10)",
    "new_thread": "t = threading.Thread(target=os.mkdir, args=(PATH,)); t.start(); t.join(10)",
    "directly": "os.mkdir(PATH)",
}
"""What live statements hand to what the others have started."""


class Outside:
    """What can be seen from outside: a directory, and servers that note who came."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.came: set[str] = set()
        self.shared = f"rewindow-test-{os.getpid()}"
        came = self.came

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                came.add("http")
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever).start()
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        for server in (self._tcp, self._udp):
            server.setblocking(False)

    def close(self) -> None:
        self.clear()
        self._http.shutdown()
        for server in (self._http.socket, self._tcp, self._udp):
            server.close()

    def source(self, name: str, template: str) -> str:
        """The statement, which leaves what is called `name`."""
        numbers = {"PORT": self._tcp, "UDP": self._udp, "HTTP": self._http.socket}
        for word, server in numbers.items():
            template = template.replace(word, str(server.getsockname()[1])) if name == word.lower() else template
        template = template.replace("PORT", str(self._tcp.getsockname()[1])).replace("SHM", self.shared)
        return template.replace("PATH", repr(str(self.directory / name))).replace("GIVEN", repr(str(self.given)))

    @property
    def given(self) -> Path:
        return self.directory / "given"

    def traces(self) -> set[str]:
        """The names of all that has acted since the last `clear`."""
        found = set(os.listdir(self.directory)) - {"given"} | self.came
        if os.path.exists(f"/dev/shm/{self.shared}"):
            found.add("shared_memory")
        try:
            self._tcp.accept()[0].close()
            self.came.add("tcp")
        except BlockingIOError:
            pass
        try:
            self._udp.recv(10)
            self.came.add("udp")
        except BlockingIOError:
            pass
        return found | self.came

    def wait_for(self, name: str) -> None:
        """Returns when it has acted."""
        deadline = time.monotonic() + SECONDS
        while name not in self.traces():
            assert time.monotonic() < deadline, name
            time.sleep(0.005)  # because a directory tells nobody

    def clear(self) -> None:
        """Takes all traces away, so that whatever acts again leaves them again."""
        self.traces()
        self.came.clear()
        for path in self.directory.iterdir():
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        Path(f"/dev/shm/{self.shared}").unlink(missing_ok=True)
        self.given.write_text("given")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    directory = tmp_path / "outside"
    directory.mkdir()
    place = Outside(directory)
    place.clear()
    yield place
    place.close()


def run(agent: Agent, session: str, source: str) -> dict[str, Any]:
    assert agent.prompt(session, source) == "end_turn"
    return agent.updates("tool_call_update")[-1]


def test_reload_repeats_no_effect_and_names_each_refused_one(tmp_path: Path, outside: Outside) -> None:
    ways = {**AT_ONCE, **LATER}
    project = tmp_path / "project"
    project.mkdir()
    first = Agent(tmp_path / "state")
    session = first.open(project)
    for number, (name, template) in enumerate(ways.items(), 1):
        shown = run(first, session, outside.source(name, template))
        assert shown["status"] == "completed", (name, shown)
        assert run(first, session, f"kept_{number} = {number}")["status"] == "completed"
        outside.wait_for(name)
    first.kill()
    outside.clear()

    with Agent(tmp_path / "state") as agent:
        agent.initialize()
        load(agent, session, project)
        run(agent, session, "+".join(f"kept_{number}" for number in range(1, len(ways) + 1)))
        assert last_value(agent) == str(sum(range(1, len(ways) + 1)))
        run(agent, session, COURSE)
        assert last_value(agent) == "([False, False, False, False], [(0.0, 0.0)])"
        assert outside.traces() == set()
        (shown,) = (call for call in agent.updates("tool_call") if call["title"] == "Rebuild the namespace")
        for name, template in HANDED.items():
            shown_now = run(agent, session, outside.source(name, template))
            assert shown_now["status"] == "completed", (name, shown_now)
        assert outside.traces() == set(HANDED)

    (restored,) = (event for event in logged(tmp_path / "state", session) if event["kind"] == "environment_restored")
    told = shown["content"][0]["content"]["text"]
    for number, name in enumerate(ways):
        lines = [line for line in restored["divergences"] if line.startswith(f"<statement {2 * number + 1}> ")]
        words = (
            ("was not allowed to call",) if name in AT_ONCE else ("was not allowed to call", "continues", "was stopped")
        )
        assert any(word in line for word in words for line in lines), (name, lines)
        assert all(line in told for line in lines)
    kept = {f"<statement {2 * number + 2}>" for number in range(len(ways))}
    assert not [line for line in restored["divergences"] if line.startswith(tuple(kept))]


def test_no_statement_makes_a_session_unusable(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    ending = "import os, pathlib\nif pathlib.Path('reloaded').exists(): os._exit(1)"
    many = (
        "import io\nfor n in range(20_000):\n    try: io.open(f'{n}.txt', 'x').close()\n    except RuntimeError: pass\n"
        "for name in os.listdir(): os.remove(name)"
    )
    replacing = "import builtins; builtins.compile = builtins.isinstance = os.open = None"
    first = Agent(tmp_path / "state")
    session = first.open(project)
    for source in ("x = 1", ending, "y = 2", ending, ending, "z = 3", many, replacing, "w = x + y + z"):
        assert run(first, session, source)["status"] == "completed", source
    first.kill()
    (project / "reloaded").write_text("")
    with Agent(tmp_path / "state") as agent:
        agent.initialize()
        load(agent, session, project)
        assert run(agent, session, "x, y, z, w")["status"] == "completed"
        assert last_value(agent) == "(1, 2, 3, 6)"
    (restored,) = (event for event in logged(tmp_path / "state", session) if event["kind"] == "environment_restored")
    lines = restored["divergences"]
    told = [line.partition(";")[0] for line in lines]
    assert [f"<statement {number}> ended the worker and was left out" for number in (2, 4, 5)] == told[:3]
    assert "<statement 7> was refused 19,996 more outside effects" in told
    assert sum(map(len, lines)) < 5_000
    assert os.listdir(project) == ["reloaded"]
