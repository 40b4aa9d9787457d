"""What statements write: `open` goes to the host, other writes are noticed first. Paths are absolute."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine.core.execution import ExceptionInfo
from engine.log.statements import EffectAnswer, EffectRequest
from tests.support import portable
from tests.support.environments import AnyBench, past, restore

GIVEN, OTHER = b"given\n", b"other\n"
NEW = {"new": None}
CHANGED = {"given": GIVEN}
MOVED = {"given": GIVEN, "new": None}
REPLACED = {"given": GIVEN, "other": OTHER}
DATABASE = {"new": None, "new-journal": None, "new-wal": None}
WAYS: dict[str, tuple[str, dict[str, bytes | None]]] = {
    "io.open": ("import io\nwith io.open(NEW, 'w') as f: f.write('x')", NEW),
    "io.open, appending": ("with io.open(GIVEN, 'ab') as f: f.write(b'x')", CHANGED),
    "io.open, exclusively": ("io.open(NEW, 'x').close()", NEW),
    "io.FileIO": ("io.FileIO(NEW, 'w').close()", NEW),
    "an opener": (
        "import builtins, os\nbuiltins.open(NEW, 'w', opener=lambda p, flags: os.open(p, flags)).close()",
        NEW,
    ),
    "os.open": ("os.close(os.open(NEW, os.O_CREAT | os.O_WRONLY))", NEW),
    "os.truncate": ("os.truncate(GIVEN, 1)", CHANGED),
    "os.ftruncate": ("n = os.open(GIVEN, os.O_RDWR); os.ftruncate(n, 1); os.close(n)", CHANGED),
    "pathlib": ("from pathlib import Path\nPath(NEW).write_text('x')", NEW),
    "unlink": ("Path(GIVEN).unlink()", CHANGED),
    "os.rename": ("os.rename(GIVEN, NEW)", MOVED),
    "os.replace": ("os.replace(GIVEN, OTHER)", REPLACED),
    "os.link": ("os.link(GIVEN, NEW)", NEW),
    "os.symlink, written through": ("os.symlink(NEW, NEW + '.link')\nwith io.open(NEW + '.link', 'w'): pass", NEW),
    "a link, removed": ("os.symlink(GIVEN, NEW); os.remove(NEW)", {}),
    "shutil.copy": ("import shutil; _ = shutil.copy(GIVEN, NEW)", NEW),
    "shutil.move": ("_ = shutil.move(GIVEN, NEW)", MOVED),
    "shutil.move, into a directory": (
        "os.mkdir(NEW); _ = shutil.move(GIVEN, NEW)",
        {"given": GIVEN, "new/given": None},
    ),
    "shutil.copytree": ("_ = shutil.copytree(TREE, NEW)", {"new/a": None, "new/deep/b": None}),
    "shutil.rmtree": ("shutil.rmtree(TREE)", {"tree/a": b"a", "tree/deep/b": b"b"}),
    "a directory, renamed": (
        "os.rename(TREE, NEW)",
        {"tree/a": b"a", "tree/deep/b": b"b", "new/a": None, "new/deep/b": None},
    ),
    "mkstemp": ("import tempfile; n, name = tempfile.mkstemp('', 'new', DIR); os.rename(name, NEW); os.close(n)", NEW),
    "sqlite3": ("import sqlite3; c = sqlite3.connect(NEW); _ = c.execute('create table t (x)'); c.close()", DATABASE),
    "sqlite3, by a URI": ("c = sqlite3.connect('file://' + NEW.replace('w', '%77'), uri=True); c.close()", DATABASE),
    "mmap": (
        "import mmap\nwith io.open(GIVEN, 'r+b') as f:\n    with mmap.mmap(f.fileno(), 0) as m: m[:1] = b'G'",
        CHANGED,
    ),
    "fileinput": (
        "import fileinput\nfor line in fileinput.input(GIVEN, inplace=True, backup='.old'): print(line)",
        {"given": GIVEN, "given.old": None},
    ),
    "a path in bytes": ("with io.open(os.fsencode(NEW), 'w'): pass", NEW),
    "a path-like": ("class P:\n    def __fspath__(self): return NEW\nwith io.open(P(), 'w'): pass", NEW),
    "functions that were replaced": (
        "kept = os.fsencode, os.readlink\nos.fsencode = os.readlink = None\n"
        "try: io.open(NEW, 'w').close()\nfinally: os.fsencode, os.readlink = kept",
        NEW,
    ),
    "twice": ("Path(GIVEN).write_text('1'); Path(GIVEN).write_text('2')", CHANGED),
}
"""Statements, and the files that each is noticed to write, with what they held."""
if not portable.is_on():
    WAYS["O_TMPFILE"] = (
        "n = os.open(DIR, os.O_TMPFILE | os.O_RDWR)\nos.link(f'/proc/self/fd/{n}', NEW, src_dir_fd=n)\nos.close(n)",
        NEW,
    )
OWN_PROCESS = {
    "os.open in a directory": (
        "d = os.open(DIR, os.O_RDONLY)\nos.close(os.open('new', os.O_CREAT | os.O_RDWR, dir_fd=d))",
        NEW,
    ),
    "os.mknod": ("os.mknod(NEW)", NEW),
    "os.remove in a directory": ("d = os.open(DIR, os.O_RDONLY); os.remove('given', dir_fd=d)", CHANGED),
    "a relative path": ("os.chdir(DIR); Path('new').write_text('x')", NEW),
    "a thread": (
        "import threading; t = threading.Thread(target=Path(GIVEN).write_text, args=('x',)); t.start(); t.join()",
        CHANGED,
    ),
}
"""Further ones, where the process is the statements' own."""


def place(root: Path) -> dict[str, str]:
    names = {"NEW": "new", "GIVEN": "given", "OTHER": "other", "TREE": "tree", "DIR": ""}
    return {word: repr(str(root / name)) for word, name in names.items()}


def prepared(root: Path, source: str) -> str:
    (root / "tree" / "deep").mkdir(parents=True)
    for name, content in {"given": GIVEN, "other": OTHER, "tree/a": b"a", "tree/deep/b": b"b"}.items():
        (root / name).write_bytes(content)
    for word, text in place(root).items():
        source = source.replace(word, text)
    return source


def noticed(b: AnyBench, root: Path) -> dict[str, bytes | None]:
    """What each file was told to hold. Files with made-up names are left out."""
    found: dict[str, bytes | None] = {}
    for touched in b.touched:
        if not touched.path:  # an act that does not name what it changes
            continue
        name = os.path.relpath(os.fsdecode(touched.path), os.path.realpath(root))
        assert name not in found, f"{name} was told twice"
        assert (touched.data is None) == (touched.digest == "")
        made_up = name.startswith("new") and name not in ("new", "new-wal", "new-journal") and "/" not in name
        # What is opened in a directory's descriptor is announced as if it were in the working directory, too.
        if not made_up and not name.startswith(".."):
            found[name] = touched.data
    b.touched.clear()
    return found


async def test_each_way_to_write_is_noticed_with_earlier_content(b: AnyBench, tmp_path: Path) -> None:
    own_process = type(b.environment).__name__ == "WorkerEnvironment"
    for number, (way, (source, expected)) in enumerate({**WAYS, **(OWN_PROCESS if own_process else {})}.items()):
        root = tmp_path / str(number)
        root.mkdir()
        outcome = await b.run(prepared(root, source))
        assert outcome.status == "ok", (way, outcome.exception)
        assert noticed(b, root) == expected, way
        assert outcome.acted, way
        assert outcome.more == 0, way


IN_MEMORY = "" if portable.is_on() else "n = os.memfd_create('x'); io.open(n, 'w').close()\n"


async def test_what_writes_nothing_is_not_noticed(b: AnyBench, tmp_path: Path) -> None:
    source = prepared(
        tmp_path,
        "import io, os, sqlite3, mmap, tempfile\n"
        "with io.open(GIVEN) as f: _ = f.read()\n"
        "with io.open(GIVEN, 'rb') as f: mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ).close()\n"
        "io.open(os.devnull, 'w').close(); sqlite3.connect(':memory:').close(); sqlite3.connect('').close()\n"
        "d = os.open(DIR, os.O_RDONLY); os.close(os.open('given', os.O_RDONLY, dir_fd=d)); os.close(d)\n"
        f"{IN_MEMORY}os.listdir(DIR), os.stat(GIVEN), id(1)",
    )
    outcome = await b.run(source)
    assert outcome.status == "ok", outcome.exception
    assert b.touched == []
    assert not outcome.acted


async def test_bytecode_that_an_import_keeps_is_no_act(b: AnyBench, tmp_path: Path) -> None:
    name = f"made_{os.getpid()}_{type(b.environment).__name__}"
    (tmp_path / f"{name}.py").write_text("x = 1")
    source = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.dont_write_bytecode = False; import {name}"
    outcome = await b.run(f"kept = __import__('sys').dont_write_bytecode\n{source}; sys.dont_write_bytecode = kept")
    assert outcome.status == "ok", outcome.exception
    assert list((tmp_path / "__pycache__").iterdir())
    assert b.touched == []
    assert not outcome.acted
    await b.run(f"del sys.path[0], sys.modules[{name!r}]")


async def test_host_writes_are_acts_but_not_noticed(b: AnyBench, tmp_path: Path) -> None:
    outcome = await b.run(f"try: open({str(tmp_path / 'a')!r}, 'w').close()\nexcept PermissionError: pass")
    assert outcome.status == "ok", outcome.exception
    assert b.touched == []
    assert outcome.acted


async def test_a_replay_and_plan_mode_refuse_and_notice_nothing(b: AnyBench, tmp_path: Path) -> None:
    source = f"import pathlib; n = pathlib.Path({str(tmp_path / 'a')!r}).write_text('x')"
    restored = await restore(b, past(source))
    assert "was not allowed to call open" in restored.divergences[0]
    outcome = await b.run(source, plan=True)
    assert outcome.exception.type == "PermissionError"
    assert b.touched == []
    assert os.listdir(tmp_path) == []


async def test_a_large_content_comes_whole_in_order(b: AnyBench, tmp_path: Path) -> None:
    large, given = tmp_path / "large", tmp_path / "given"
    content = os.urandom(1 << 20)
    large.write_bytes(content)
    given.write_bytes(GIVEN)
    assert (await b.run(f"import io; io.open({str(large)!r}, 'r+b').close()")).status == "ok"
    assert [touched.data for touched in b.touched] == [content]
    b.touched.clear()
    outcome = await b.run(f"import os; os.truncate({str(given)!r}, 0); os.truncate({str(large)!r}, 0)")
    assert [touched.data for touched in b.touched] == [GIVEN, content]
    assert outcome.more == 0


class Disk:
    """A host that writes what it is asked to, as far as it may."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, bytes]] = []
        self.error: ExceptionInfo | None = None

    async def __call__(self, effect: EffectRequest) -> EffectAnswer:
        arguments: Any = effect.arguments
        assert effect.operation == "write"
        self.asked.append((arguments["path"], arguments["text"]))
        if self.error is None:
            (self.root / arguments["path"]).write_bytes(arguments["text"])
        return EffectAnswer(value={}, error=self.error)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_write_lands_before_the_next_line(b: AnyBench, tmp_path: Path, disk: Disk) -> None:
    place = str(tmp_path / "a.txt")
    source = f"with open({place!r}, 'w') as f: n = f.write('one\\n')\nf = open({place!r}, 'a'); g = f.write('two\\n'); "
    outcome = await b.run(source + f"__import__('pathlib').Path({place!r}).read_text()", effects=disk)
    assert outcome.value == repr("one\n")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    assert (await b.run("f.write('three\\n'); f.close()", effects=disk)).status == "ok"
    assert disk.asked == [("a.txt", text) for text in (b"one\n", b"one\ntwo\n", b"one\ntwo\nthree\n")]
    assert await b.value("f.closed") == "True"


async def test_what_a_finalizer_meets_fails_the_statement(b: AnyBench, tmp_path: Path, disk: Disk) -> None:
    disk.error = ExceptionInfo(type="PermissionError", message="The user rejected this change.")
    outcome = await b.run(f"open({str(tmp_path / 'a')!r}, 'w').write('x')\nx = 1", effects=disk)
    assert (outcome.status, outcome.exception.type) == ("error", "PermissionError")
    assert "The user rejected this change." in outcome.exception.message
    assert "raised when the last reference to the file " in outcome.exception.traceback
    assert await b.value("x") == "1"
    both = await b.run(f"open({str(tmp_path / 'b')!r}, 'w').write('x')\n1 / 0", effects=disk)
    assert both.exception.type == "ZeroDivisionError"
    assert both.stderr.text == "PermissionError: The user rejected this change.\n"


async def test_a_replay_takes_the_recorded_answer_and_touches_nothing(b: AnyBench, tmp_path: Path) -> None:
    place = tmp_path / "a"
    source = f"with open({str(place)!r}, 'x') as f: n = f.write('x')"
    (tmp_path / "a").write_text("as it is now")
    restored = await restore(b, past(source, answers=(EffectAnswer(value={}),)))
    assert restored.divergences == ()
    assert place.read_text() == "as it is now"
    assert await b.value("n, f.closed") == "(1, True)"


async def test_a_stopped_statement_lands_nothing_more(b: AnyBench, tmp_path: Path, disk: Disk) -> None:
    place = str(tmp_path / "a")
    source = f"f = open({place!r}, 'w'); n = f.write('x')\nprint('now', flush=True)\nwhile True: pass"
    b.on_output = b.environment.interrupt
    outcome = await b.run(source, effects=disk)
    b.on_output = None
    assert outcome.status == "cancelled"
    assert not disk.asked
    assert (await b.run("1", effects=disk)).status == "ok"
    assert not disk.asked
    assert (await b.run("f.write('y'); f.close()", effects=disk)).status == "ok"
    assert disk.asked == [("a", b"xy")]
