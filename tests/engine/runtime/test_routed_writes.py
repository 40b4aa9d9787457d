"""In a worker with a domain, what Python code writes by its own ways is the host's to write: once each, at close."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from engine.log.past import RestorePlan
from tests.support.environments import PATIENCE, contents, ended_otherwise, past, until
from tests.support.routed import RoutedBench, routed

W = "write"


class Row(NamedTuple):
    """A statement, the operations that it asks for, each with its path, and what files hold afterwards."""

    source: str
    asked: list[tuple[str, str]]
    files: dict[str, bytes]


ROWS = {
    "pathlib writes": Row("Path('a').write_text('é')", [(W, "a")], {"a": "é".encode()}),
    "pathlib touches": Row("Path('a').touch()", [(W, "a")], {"a": b""}),
    "io.open": Row("with io.open('a', 'wb') as f: f.write(b'1'); f.write(b'2')", [(W, "a")], {"a": b"12"}),
    "a name bound earlier": Row("with tokenize._builtin_open('a', 'w') as f: f.write('1')", [(W, "a")], {"a": b"1"}),
    "io.FileIO": Row(
        "f = io.FileIO('a', 'w'); f.write(b'1'); f.close(); assert Path('a').exists()", [(W, "a")], {"a": b"1"}
    ),
    "a class below io.FileIO": Row(
        "class Log(io.FileIO): pass\nf = Log('a', 'w'); f.write(b'1'); f.close()", [(W, "a")], {"a": b"1"}
    ),
    "os.open": Row(
        "n = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(n, b'1'); os.close(n)\n"
        "assert Path('a').read_text() == '1'",
        [(W, "a")],
        {"a": b"1"},
    ),
    "posix.open": Row(
        "import posix; n = posix.open('a', os.O_WRONLY | os.O_CREAT); os.write(n, b'1'); os.close(n)",
        [(W, "a")],
        {"a": b"1"},
    ),
    "a path that is another one later": Row(
        "class P:\n  n = 0\n  def __fspath__(self): self.n += 1; return 'a' if self.n == 1 else 'b'\n"
        "n = os.open(P(), os.O_WRONLY | os.O_CREAT); os.write(n, b'1'); os.close(n)",
        [(W, "a")],
        {"a": b"1"},
    ),
    "a path that hides what it is": Row(
        "class S(str):\n  def startswith(self, *_): return False\n  def __radd__(self, other): return other + 'b'\n"
        "with open(S('a'), 'w') as f: f.write('1')",
        [(W, "a")],
        {"a": b"1"},
    ),
    "a number that is a path, too": Row(
        "class N(int):\n  def __fspath__(self): return 'a'\n"
        "n = os.open(N(0), os.O_WRONLY | os.O_CREAT); os.write(n, b'1'); os.close(n)",
        [(W, "a")],
        {"a": b"1"},
    ),
    "flags that hide a write": Row(
        "class F(int):\n  def __and__(self, other): return 0\n"
        "n = os.open('a', F(os.O_WRONLY | os.O_CREAT)); os.write(n, b'1'); os.close(n)",
        [(W, "a")],
        {"a": b"1"},
    ),
    "a mode that hides a write": Row(
        "class M(str):\n  __hash__ = lambda self: hash('r')\n  __eq__ = lambda self, other: other == 'r'\n"
        "  __iter__ = lambda self: iter('r')\nwith io.open('a', M('w')) as f: f.write('1')",
        [(W, "a")],
        {"a": b"1"},
    ),
    "a path in a buffer": Row(
        "n = os.open(bytearray(b'a'), os.O_WRONLY | os.O_CREAT); os.write(n, b'1'); os.close(n)",
        [(W, "a")],
        {"a": b"1"},
    ),
    "os.open, never closed": Row(
        "n = os.open('a', os.O_RDWR | os.O_CREAT); os.write(n, b'1')", [(W, "a")], {"a": b"1"}
    ),
    "os.fdopen": Row(
        "with os.fdopen(os.open('a', os.O_WRONLY | os.O_CREAT), 'w') as f: f.write('1')\nassert Path('a').exists()",
        [(W, "a")],
        {"a": b"1"},
    ),
    "os.open in a directory": Row(
        "os.close(os.open('a', os.O_WRONLY | os.O_CREAT, dir_fd=os.open('sub', os.O_RDONLY)))",
        [(W, "sub/a")],
        {"sub/a": b""},
    ),
    "os.truncate": Row("os.truncate('old', 2)", [(W, "old")], {"old": b"ol"}),
    "appending": Row("with Path('old').open('a') as f: f.write('!')", [(W, "old")], {"old": b"old\n!"}),
    "changing in place": Row(
        "with Path('old').open('r+') as f: f.seek(1); f.write('O')", [(W, "old")], {"old": b"oOd\n"}
    ),
    "as it was": Row("with Path('old').open('r+') as f: f.read()", [], {"old": b"old\n"}),
    "two who append": Row(
        "f, g = (io.open('old', 'ab', 0) for _ in range(2))\n"
        "f.write(b'1'); g.write(b'2'); f.write(b'3'); f.close(); g.close()",
        [(W, "old")],
        {"old": b"old\n123"},
    ),
    "read back before it lands": Row(
        "f = io.open('a', 'w'); f.write('1'); f.flush(); assert Path('a').read_text() == open('a').read() == '1'",
        [(W, "a")],
        {"a": b"1"},
    ),
    "exclusively": Row(
        "n = os.open('a', os.O_CREAT | os.O_EXCL | os.O_WRONLY)\n"
        "try: os.open('a', os.O_CREAT | os.O_EXCL | os.O_WRONLY)\n"
        "except FileExistsError: pass\n"
        "else: raise AssertionError",
        [(W, "a")],
        {"a": b""},
    ),
    "without a name": Row(
        "with tempfile.TemporaryFile(dir='.') as f: f.write(b'1'); f.seek(0); assert f.read() == b'1'", [], {}
    ),
    "temporary files": Row(
        "with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryDirectory() as d:\n"
        "    f.write(b'1'); Path(d, 'a').write_text('1')\n"
        "n = Path(tempfile.gettempdir(), 'kept').write_text('2'); open(tempfile.gettempdir() + '/b', 'w').close()",
        [],
        {"../scratch/kept": b"2", "../scratch/b": b""},
    ),
    "devices": Row("io.open('/dev/null', 'w').write('1'); os.close(os.open('/dev/null', os.O_RDWR))", [], {}),
    "a mapping that outlives its file": Row(
        "import mmap\n"
        "with io.open('a', 'wb+') as f: f.write(b'12'); f.flush(); m = mmap.mmap(f.fileno(), 0)\n"
        "m[0] = 51; m.flush()",
        [(W, "a"), (W, "a")],
        {"a": b"32"},
    ),
    "an import of what was just written": Row(
        "Path('fresh_module.py').write_text('x = 1'); import fresh_module; assert fresh_module.x == 1",
        [(W, "fresh_module.py")],
        {},
    ),
    "ten megabytes": Row("n = Path('a').write_bytes(bytes(10 << 20))", [(W, "a")], {"a": bytes(10 << 20)}),
    "threads": Row(
        "import threading\n"
        "ts = [threading.Thread(target=lambda n=n: Path(f'{n}').write_text('1')) for n in range(4)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()",
        [(W, "0"), (W, "1"), (W, "2"), (W, "3")],
        {"3": b"1"},
    ),
    "os.mkdir": Row("os.mkdir('d'); os.rmdir('d')", [("mkdir", "d"), ("rmdir", "d")], {}),
    "os.makedirs": Row(
        "os.makedirs('d/e', exist_ok=True); os.makedirs('d/e', exist_ok=True); Path('sub').mkdir(exist_ok=True)",
        [("mkdir", "d"), ("mkdir", "d/e")],
        {},
    ),
    "what a function refuses": Row(
        "for call, error in ((lambda: os.mkdir('sub'), FileExistsError),\n"
        "    (lambda: os.remove('no'), FileNotFoundError),\n"
        "    (lambda: os.remove('sub'), IsADirectoryError), (lambda: os.rmdir('old'), NotADirectoryError),\n"
        "    (lambda: os.rename('no', 'b'), FileNotFoundError), (lambda: os.symlink('a', 'old'), FileExistsError),\n"
        "    (lambda: os.mkdir('no/d'), FileNotFoundError), (lambda: os.utime('no'), FileNotFoundError)):\n"
        "    try: call()\n"
        "    except error as found: assert found.errno and found.filename\n"
        "    else: raise AssertionError(error)\n"
        "Path('no').unlink(missing_ok=True)",
        [],
        {},
    ),
    "os.remove": Row("os.remove('old'); assert not os.path.exists('old')", [("remove", "old")], {}),
    "os.unlink in a directory": Row(
        "d = os.open('.', os.O_RDONLY); os.unlink('old', dir_fd=d)", [("remove", "old")], {}
    ),
    "os.rename": Row("os.rename('old', 'sub/new')", [("rename", "sub/new")], {"sub/new": b"old\n"}),
    "os.replace, of what was just written": Row(
        "with tempfile.NamedTemporaryFile('w', dir='.', delete=False) as f:\n"
        "    f.write('new'); f.flush(); os.replace(f.name, 'old')\n"
        "name = f.name",
        [(W, "*"), ("rename", "old")],
        {"old": b"new"},
    ),
    "a temporary file beside": Row("with tempfile.NamedTemporaryFile('w', dir='.') as f: f.write('new')", [], {}),
    "removed before it landed": Row("f = io.open('a', 'w'); f.write('1'); os.remove('a'); f.close()", [], {}),
    "a link": Row("os.symlink('old', 'a')", [("symlink", "a")], {"a": b"old\n"}),
    "a further name": Row("os.link('old', 'a')", [("link", "a")], {"a": b"old\n"}),
    "a pipe": Row("os.mkfifo('p')", [("mkfifo", "p")], {}),
    "permissions": Row(
        "os.chmod('old', 0o600); Path('old').chmod(0o600); assert os.stat('old').st_mode & 0o777 == 0o600",
        [("chmod", "old")],
        {},
    ),
    "times": Row(
        "os.utime('old', (1, 2)); os.utime('old', ns=(3, 4)); assert os.stat('old').st_mtime_ns == 4\n"
        "os.utime('old'); assert os.stat('old').st_mtime > 5",
        [("utime", "old")] * 3,
        {},
    ),
    "shutil.copy, out of scratch": Row(
        "p = Path(tempfile.gettempdir(), 'a'); p.write_text('1'); import shutil; shutil.copy(p, 'a')",
        [(W, "a")],
        {"a": b"1"},
    ),
    "shutil.move, out of scratch": Row(
        "p = Path(tempfile.gettempdir(), 'a'); p.write_text('1'); import shutil; shutil.move(p, 'a')\n"
        "assert not p.exists()",
        [(W, "a"), ("utime", "a")],
        {"a": b"1"},
    ),
    "shutil.copytree": Row(
        "Path('sub/f').write_text('1'); import shutil; shutil.copytree('sub', 'd')",
        [(W, "sub/f"), ("mkdir", "d"), (W, "d/f"), ("utime", "d/f"), ("utime", "d")],
        {"d/f": b"1"},
    ),
    "what Python keeps of what it compiled": Row(
        "for make in (lambda: os.mkdir('__pycache__'), lambda: Path('__pycache__/a.pyc').write_bytes(b'')):\n"
        "    try: make()\n"
        "    except OSError: pass\n"
        "    else: raise AssertionError\n"
        "__import__('shutil').rmtree('sub')",
        [("rmtree", "sub")],
        {},
    ),
    "in place, by fileinput": Row(
        "import fileinput\nfor line in fileinput.input('old', inplace=True): print(line.upper(), end='')",
        [("rename", "old.bak"), (W, "old"), (W, "old"), ("remove", "old.bak")],
        {"old": b"OLD\n"},
    ),
    "shutil.rmtree, by a name bound earlier": Row(
        "import shutil; f = io.open('sub/f', 'w'); f.write('1'); shutil.move.__globals__['rmtree']('sub'); f.close()",
        [("rmtree", "sub")],
        {},
    ),
    "what shutil.rmtree refuses": Row(
        "import shutil\nos.symlink('sub', 'link'); met = []\n"
        "shutil.rmtree('no', ignore_errors=True); shutil.rmtree('old', onerror=lambda *found: met.append(found[1]))\n"
        "for path in ('no', 'old', 'link'):\n"
        "    try: shutil.rmtree(path)\n"
        "    except OSError as found: met.append(found.filename)\n"
        "    else: raise AssertionError(path)\n"
        "assert met[-3:-1] == ['no', 'old'] and met[-1] in (None, 'link'), met\n"
        "assert shutil.rmtree.avoids_symlink_attacks",
        [("symlink", "link")],
        {},
    ),
    "into scratch and out of it": Row(
        "import errno\n"
        "try: os.rename('old', tempfile.gettempdir() + '/old')\n"
        "except OSError as e: assert e.errno == errno.EXDEV\n"
        "os.mkdir(tempfile.gettempdir() + '/d')",
        [],
        {"old": b"old\n"},
    ),
}
TEMPORARY = re.compile(r"tmp\w{8}")
PREAMBLE = "import builtins, io, os, tempfile, tokenize; from pathlib import Path\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
async def test_writes_of_other_code_go_through_the_host(worker: RoutedBench, name: str) -> None:
    row = ROWS[name]
    (worker.cwd / "sub").mkdir()
    (worker.cwd / "old").write_text("old\n")
    outcome = await worker.run(PREAMBLE + row.source, effects=worker.effects)
    assert outcome.exception is None, outcome.exception.traceback
    asked = [(operation, TEMPORARY.sub("*", str(path))) for operation, path in worker.asked]
    assert sorted(asked) == sorted(row.asked)
    for path, content in row.files.items():
        assert (worker.cwd / path).read_bytes() == content
    assert not [each for each in worker.touched if each.path]  # without a path: something unnamed may change


@pytest.mark.slow
async def test_plan_mode_changes_scratch_alone(worker: RoutedBench) -> None:
    (worker.cwd / "old").write_text("old")
    free = (
        "d = tempfile.mkdtemp(); p = Path(d, 'a'); p.write_text('1'); p.rename(Path(d, 'b'))\n"
        "Path(d, 'c').mkdir(); import shutil, sqlite3\n"
        "sqlite3.connect(d + '/db').execute('create table t (x)'); shutil.rmtree(d)"
    )
    outcome = await worker.run(PREAMBLE + free, effects=worker.effects, plan=True)
    assert outcome.exception is None, outcome.exception.traceback
    for source in (
        "Path('a').write_text('1')",
        "io.open('old', 'a')",
        "os.mkdir('d')",
        "os.remove('old')",
        "os.rename('old', tempfile.gettempdir() + '/b')",
        "os.chmod('old', 0o600)",
        "os.symlink('/etc', tempfile.gettempdir() + '/e'); os.truncate(tempfile.gettempdir() + '/e/../old', 0)",
    ):
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects, plan=True)
        assert outcome.exception is not None, source
        assert "plan mode allows no outside effects" in outcome.exception.message, (source, outcome.exception)
    assert (worker.cwd / "old").read_text() == "old"
    assert worker.asked == []


@pytest.mark.slow
async def test_a_forked_process_cannot_write(worker: RoutedBench) -> None:
    outcome = await worker.run(
        PREAMBLE + "if (pid := os.fork()) == 0:\n    try: Path('a').write_text('1')\n    except OSError as e:"
        " os._exit(e.errno)\n    os._exit(0)\n[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]",
        effects=worker.effects,
    )
    assert outcome.value in ("[13]", "[30]")
    assert worker.asked == []


@pytest.mark.slow
async def test_open_files_at_a_checkpoint_land_from_restored_workers(worker: RoutedBench) -> None:
    step = past(
        PREAMBLE + "f = io.open('a', 'w'); f.write('1'); n = os.open('b', os.O_WRONLY | os.O_CREAT); os.write(n, b'1')"
    )
    outcome = await worker.environment.run(step.request, worker.effects, worker.take)
    assert outcome.exception is None, outcome.exception.traceback
    assert await worker.environment.snapshot(step.request.execution_id)
    await until(lambda: bool(worker.environment.checkpoints()))
    for _ in range(2):
        with anyio.fail_after(PATIENCE):
            await worker.environment.restore(RestorePlan(steps=(step,)), contents, ended_otherwise)
        worker.asked.clear()
        source = "f.write('2'); f.close(); g = Path('b').open('ab'); g.write(b'2'); g.close(); os.close(n)"
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
        assert outcome.exception is None, outcome.exception.traceback
        assert worker.asked == [(W, "a"), (W, "b")]
        assert [(worker.cwd / name).read_text() for name in "ab"] == ["12", "12"]
        for name in "ab":
            (worker.cwd / name).write_text("1")  # as it was at the checkpoint


async def test_writable_domain_asks_nobody_and_keeps_earlier_content(tmp_path: Path) -> None:
    async with routed(tmp_path, writable=(str(tmp_path / "project"),)) as worker:
        (worker.cwd / "old").write_text("old")
        source = (
            "import shutil\n"
            "p = Path('old'); p.write_text('new'); Path('d').mkdir(); p.rename('d/a')\n"
            "q = Path(tempfile.gettempdir(), 'b'); q.write_text('1'); os.replace(q, 'd/b'); assert not q.exists()\n"
            "with open('c', 'w') as f: n = f.write('by open')"
        )
        outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
        assert outcome.exception is None, outcome.exception.traceback
        assert worker.asked == [(W, "c")]
        first = worker.touched[0]
        assert (Path(os.fsdecode(first.path)).name, first.data) == ("old", b"old")
        assert {each.name: each.read_text() for each in (worker.cwd / "d").iterdir()} == {"a": "new", "b": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "error"),
    [
        (
            "Path('a').write_bytes(bytes(100 << 20))",
            "files of up to 32 MiB; write a larger file to a temporary directory",
        ),
        (
            "n = os.open('a', os.O_WRONLY | os.O_CREAT); os.ftruncate(n, 100 << 20); os.close(n)",
            "files of up to 32 MiB",
        ),
        ("os.truncate('old', 100 << 20)", "files of up to 32 MiB"),
        ("Path(os.fsdecode(b'\\xff')).write_text('x')", "is not UTF-8"),
        ("os.mkdir(b'\\xff')", "is not UTF-8"),
        ("os.rename('old', b'\\xff')", "is not UTF-8"),
        ("Path('../outside').write_text('x')", "outside the workspace"),
        ("Path('/etc/outside').touch()", "outside the workspace"),
        ("os.mkdir('/outside')", "outside the workspace"),
    ],
)
async def test_writes_that_the_host_refuses_have_a_sentence(worker: RoutedBench, source: str, error: str) -> None:
    (worker.cwd / "old").write_text("old")
    outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
    assert error in outcome.exception.message
    assert [each for each in worker.asked if each[0] == W] == []
    assert [each.name for each in worker.cwd.iterdir()] == ["old"]


@pytest.mark.slow
async def test_a_statement_that_is_stopped_lands_nothing_more(worker: RoutedBench) -> None:
    worker.on_output = worker.environment.interrupt
    source = "f = io.open('a', 'w'); f.write('1'); n = os.open('b', os.O_WRONLY | os.O_CREAT); os.write(n, b'1')\n"
    outcome = await worker.run(PREAMBLE + source + "print('on', flush=True)\nwhile True: pass", effects=worker.effects)
    worker.on_output = None
    assert outcome.status == "cancelled"
    assert worker.asked == []
    assert list(worker.cwd.iterdir()) == []
    assert (await worker.run("f.close(); os.close(n)", effects=worker.effects)).exception is None


@pytest.mark.slow
async def test_file_name_without_utf8_is_shown_with_replacements(worker: RoutedBench) -> None:
    (worker.cwd / os.fsdecode(b"\xff")).write_text("old")
    source = "p = Path(os.fsdecode(b'\\xff')); p.write_text('new'); p.chmod(0o600); os.rename(p, 'a')"
    outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
    assert outcome.exception is None, outcome.exception.traceback
    assert worker.asked == [(W, "\ufffd"), ("chmod", "\ufffd"), ("rename", "a")]
    assert {each.name: each.read_text() for each in worker.cwd.iterdir()} == {"a": "new"}


@pytest.mark.slow
async def test_a_statement_that_closes_all_descriptors_hears_of_it_once(worker: RoutedBench) -> None:
    source = "f = io.open('a', 'w'); n = f.write('1'); os.closerange(3, 400)"
    outcome = await worker.run(PREAMBLE + source, effects=worker.effects)
    assert "Bad file descriptor" in outcome.exception.message
    outcome = await worker.run("n = Path('a').write_text('2')", effects=worker.effects)
    assert outcome.exception is None or "Bad file" in outcome.exception.message  # of the buffer, which is Python's
    assert (worker.cwd / "a").read_text() == "2"
    assert worker.asked == [(W, "a")]
