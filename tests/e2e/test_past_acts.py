"""Plain ways to act outside, each done once, in a session that is rebuilt twice: by a load and after a killed worker.

`test_rebuild_effects` has what a re-run statement *starts*; here the statement acts itself. Of each way is seen, from
outside, that it acted once and not again; in the report, that it is named; and in the namespace, that what its
statement bound is back or said to be lost.
"""

from __future__ import annotations

import ast
import re
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.past import Life, names_in, said_of

pytestmark = pytest.mark.slow

APPEND = "'echo x >> ' + PATH"
ACTS = {
    # Files. Most add to what is there, so that a second time can be seen.
    "io_open": """
import io
with io.open(PATH, 'a') as f: n = f.write('x')""",
    "pathlib": """
from pathlib import Path
with Path(PATH).open('a') as f: n = f.write('x')""",
    "write_text": """
from pathlib import Path
n = Path(PATH).write_text('x')""",
    "os_open": """
import os
d = os.open(PATH, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
n = os.write(d, b'x')
os.close(d)""",
    "shutil": """
import shutil
n = shutil.copy(GIVEN, PATH)""",
    "rename": """
import io, os
with io.open(PATH + '.new', 'w') as f: n = f.write('x')
os.rename(PATH + '.new', PATH); n = os.path.basename(PATH)""",
    "tempfile": """
import tempfile
with tempfile.NamedTemporaryFile(dir=DIRECTORY, prefix='tempfile', delete=False) as f: n = f.write(b'x')""",
    "sqlite3": """
import sqlite3
c = sqlite3.connect(PATH); _ = c.execute('create table if not exists t (x)'); _ = c.execute('insert into t values (1)')
c.commit(); n = c.execute('select count(*) from t').fetchone(); c.close()""",
    "zipfile": """
import zipfile
with zipfile.ZipFile(PATH, 'a') as z: z.writestr('x', 'x')
n = z.namelist()""",
    "logging": """
import logging
h = logging.FileHandler(PATH); l = logging.getLogger('acts'); l.addHandler(h)
l.warning('x'); l.removeHandler(h); h.close(); n = 1""",
    "mmap": """
import mmap, os
d = os.open(MAPPED, os.O_RDWR)
m = mmap.mmap(d, 0); m[0:1] = bytes([m[0] + 1]); n = m[0]; m.close(); os.close(d)""",
    "shelve": """
import shelve
with shelve.open(PATH) as s: s['n'] = s.get('n', 0) + 1; n = s['n']""",
    "csv": """
import csv, pathlib
with pathlib.Path(PATH).open('a', newline='') as f: n = csv.writer(f).writerow([1, 2])""",
    "json": """
import json, io
with io.open(PATH, 'a') as f: json.dump({'x': 1}, f)
n = [1]""",
    "pandas": """
import pandas
frame = pandas.DataFrame({'x': [1, 2]}); frame.to_csv(PATH, mode='a'); n = len(frame)""",
    # Sockets.
    "tcp": """
import socket
with socket.create_connection(('127.0.0.1', PORT)) as s: s.sendall(b'x'); n = s.recv(3)""",
    "udp": """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: n = s.sendto(b'x', ('127.0.0.1', UDP))""",
    "unix": """
import socket
with socket.socket(socket.AF_UNIX) as s: s.connect(UNIX); n = s.send(b'x')""",
    "http_client": """
import http.client
h = http.client.HTTPConnection('127.0.0.1', PORT); h.request('GET', '/'); n = h.getresponse().status; h.close()""",
    "urllib": """
import urllib.request
with urllib.request.urlopen('http://127.0.0.1:PORT/') as f: n = f.status""",
    "smtplib": """
import smtplib
with smtplib.SMTP('127.0.0.1', PORT) as s: n = s.noop()""",
    "asyncio": """
import asyncio
async def talk():
    r, w = await asyncio.open_connection('127.0.0.1', PORT)
    w.write(b'x'); await w.drain(); got = await r.read(3); w.close(); return got
n = asyncio.run(talk())""",
    # Processes.
    "subprocess": """
import subprocess
n = subprocess.run(['sh', '-c', APPEND + '; echo y'], capture_output=True).stdout""",
    "system": """
import os
n = os.system(APPEND)""",
    "fork": """
import os
pid = os.fork()
if pid == 0: os.write(os.open(PATH, os.O_CREAT | os.O_APPEND | os.O_WRONLY), b'x'); os._exit(3)
n = os.waitpid(pid, 0)[1]""",
    "multiprocessing": """
import multiprocessing, os
p = multiprocessing.get_context('fork').Process(target=os.system, args=(APPEND,))
p.start(); p.join(); n = p.exitcode""",
    "process_pool": """
import os, multiprocessing, concurrent.futures as futures
forking = multiprocessing.get_context('fork')
with futures.ProcessPoolExecutor(1, forking) as pool: n = pool.submit(os.system, APPEND).result()""",
    "posix_spawn": """
import os
n = os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', APPEND], {}), 0)[1]""",
    # Threads, timers, and what Python calls by itself.
    "thread": """
import threading, os
t = threading.Thread(target=os.system, args=(APPEND,)); t.start(); t.join(); n = 1""",
    "timer": """
import threading, os
t = threading.Timer(0.01, os.system, (APPEND,)); t.start(); t.join(); n = 1""",
    "alarm": """
import os, signal
_ = signal.signal(signal.SIGALRM, lambda *_: os.system(APPEND))
_ = signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause(); n = 1""",
    "atexit": """
import atexit, os
_ = atexit.register(os.system, APPEND); atexit._run_exitfuncs(); n = 1""",
    "finalizer": """
import os, weakref
class Held: pass
held = Held(); end = weakref.finalize(held, os.system, APPEND)
del held; n = end.alive""",
    "del": """
import os
class Closing:
    def __del__(self): os.system(APPEND)
Closing(); n = 1""",
}
"""Statements that act, by the name of what shows it. All of them bind names after they have acted."""

SHARED = frozenset({"n", "m", "f", "d", "c", "z", "h", "l", "s", "t", "p", "pool", "pid", "end", "frame", "held"})
"""The names that these statements bind."""

SHOWN = """
{name: repr(value) for name, value in list(globals().items()) if type(value) in (int, str, bytes, list, tuple, bool)
 and name[:1] != '_'}
"""


class Answering(socketserver.BaseRequestHandler):
    """One connection: counted, and answered with whatever its protocol takes for an answer."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Counted)
        server.counts[server.name] += 1
        self.request.settimeout(10)
        if server.name == "smtplib":
            self.request.sendall(b"220 here\r\n")
            while line := self.request.recv(1000):
                self.request.sendall(b"221 bye\r\n" if line.lower().startswith(b"quit") else b"250 well\r\n")
        elif self.request.recv(1000):
            self.request.sendall(b"HTTP/1.0 204 Nothing\r\n\r\n")


class Counted(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, name: str, counts: Counter[str]) -> None:
        self.name = name
        self.counts = counts
        super().__init__(("127.0.0.1", 0), Answering)
        threading.Thread(target=self.serve_forever, args=(0.05,)).start()


class Outside:
    """A directory, servers and sockets, which show how often each way has acted."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "outside"
        self.directory.mkdir()
        self.given = folder / "given"
        self.given.write_text("given")
        self.mapped = folder / "mapped"
        self.mapped.write_bytes(b"\0" * 10)
        self._counts: Counter[str] = Counter()
        self._servers = {
            name: Counted(name, self._counts) for name in ("tcp", "http_client", "urllib", "smtplib", "asyncio")
        }
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(str(folder / "unix"))
        self._unix.listen()
        for each in (self._udp, self._unix):
            each.setblocking(False)

    def close(self) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()
        self._udp.close()
        self._unix.close()

    def source(self, name: str) -> str:
        """The statement, with names of its own for what all statements bind."""
        server = self._servers.get(name)
        words = {
            "APPEND": APPEND,
            "PATH": repr(str(self.directory / name)),
            "DIRECTORY": repr(str(self.directory)),
            "GIVEN": repr(str(self.given)),
            "MAPPED": repr(str(self.mapped)),
            "UDP": str(self._udp.getsockname()[1]),
            "UNIX": repr(self._unix.getsockname()),
            "PORT": str(server.server_address[1]) if server else "",
        }
        source = ACTS[name]
        for word, text in words.items():
            source = re.sub(rf"\b{word}\b", text, source)
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in SHARED:
                node.id = f"{node.id}_{name}"
        return ast.unparse(tree)

    def seen(self) -> dict[str, object]:
        """What can be seen of each way: files with their content and age, and how often somebody came."""
        for name, waiting in (("udp", self._udp), ("unix", self._unix)):
            try:
                while True:
                    waiting.recv(10) if name == "udp" else waiting.accept()[0].close()
                    self._counts[name] += 1
            except BlockingIOError:
                pass
        found: dict[str, object] = dict(self._counts)
        for path in self.directory.iterdir():
            name = "tempfile" if path.name.startswith("tempfile") else path.stem
            at = path.stat()
            found[name] = (path.name, at.st_size, at.st_mtime_ns, at.st_ino)
        found["mmap"] = self.mapped.read_bytes()[0]
        found["temporary files"] = sum(path.name.startswith("tempfile") for path in self.directory.iterdir())
        return found


@dataclass
class Seen:
    """What was seen of all ways: outside before and after each rebuild, the reports, the names."""

    acted: dict[str, object]
    after: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    reports: list[list[str]] = field(default_factory=list[list[str]])
    names: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Of numbers, texts and what holds them, as they are shown."""
    there: list[list[str]] = field(default_factory=list[list[str]])
    bound: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("acts")
    outside = Outside(folder)
    try:
        with Life(folder) as life:
            bound: dict[str, list[str]] = {}
            for name in ACTS:
                note = life.run(outside.source(name))
                assert note["status"] == "ok", (name, note)
                bound[name] = note["names"]["added"]
            before = ast.literal_eval(life.value(SHOWN) or "")
            found = Seen(outside.seen(), names=[before], bound=bound)
            for how in ("load", "worker"):
                life.lose(how)
                found.names.append(ast.literal_eval(life.value(SHOWN) or ""))
                found.there.append(ast.literal_eval(life.value("sorted(globals())") or ""))
                found.after.append(outside.seen())
                found.reports.append(life.reports()[-1])
        yield found
    finally:
        outside.close()


WAYS = pytest.mark.parametrize("name", ACTS)


@WAYS
def test_rebuild_never_repeats_an_act(seen: Seen, name: str) -> None:
    acted = seen.acted[name]
    assert acted == 1 or (isinstance(acted, tuple) and acted[1]), acted
    assert [after[name] for after in seen.after] == [acted, acted]
    assert [after["temporary files"] for after in seen.after] == [1, 1]


@WAYS
def test_a_rebuild_says_what_it_kept_from_acting(seen: Seen, name: str) -> None:
    number = list(ACTS).index(name) + 1
    for report in seen.reports:
        assert any("was kept from" in line for line in said_of(report, number)), (said_of(report, number), report)


@WAYS
def test_names_bound_with_an_act_are_rebuilt_or_reported(seen: Seen, name: str) -> None:
    number = list(ACTS).index(name) + 1
    before, *rebuilt = seen.names
    for names, there, report in zip(rebuilt, seen.there, seen.reports, strict=True):
        for bound in seen.bound[name]:
            if bound in before:
                assert names.get(bound) == before[bound], (bound, said_of(report, number))
            elif bound not in there:
                assert bound in names_in(said_of(report, number)), (bound, said_of(report, number))


def test_there_are_no_fewer_ways_than_the_adversary_had() -> None:
    assert len(ACTS) >= 28
