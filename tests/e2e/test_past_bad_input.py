"""Values that cannot be kept, contents that are gone, projects that moved: each is a sentence, and the rest is back."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.past import Life, blob, exchange, names_in, said_of
from tests.support.scripts import load

pytestmark = pytest.mark.slow

ACT = "_ = os.system('true')"
"""What has a statement stopped when it runs again, so that its names come from their copies."""

VALUES = {
    "hangs": ("class Bad:\n    def __reduce__(self):\n        while True: pass", "Bad()"),
    "sleeps": ("class Bad:\n    def __reduce__(self):\n        import time; time.sleep(1000)", "Bad()"),
    "catches_all": (
        "class Bad:\n    def __reduce__(self):\n        while True:\n"
        "            try:\n                while True: pass\n            except BaseException: pass",
        "Bad()",
    ),
    "waits_for_a_lock": (
        "import threading\nheld = threading.Lock(); _ = held.acquire()\n"
        "class Bad:\n    def __reduce__(self): held.acquire()",
        "Bad()",
    ),
    "acts": ("class Bad:\n    def __reduce__(self): os.mkdir('acted'); return str, ()", "Bad()"),
    "starts_a_process": ("class Bad:\n    def __reduce__(self): os.system('mkdir acted'); return str, ()", "Bad()"),
    "asks_the_host": ("class Bad:\n    def __reduce__(self): write('acted', 'x'); return str, ()", "Bad()"),
    "raises": ("class Bad:\n    def __reduce__(self): raise ValueError('no')", "Bad()"),
    "raises_what_ends": ("class Bad:\n    def __reduce__(self): raise SystemExit(3)", "Bad()"),
    "raises_an_interrupt": ("class Bad:\n    def __reduce__(self): raise KeyboardInterrupt", "Bad()"),
    "recurses": ("class Bad:\n    def __reduce__(self): return self.__reduce__()", "Bad()"),
    "is_deep": ("Bad = []\nfor _ in range(100_000): Bad = [Bad]", "Bad"),
    "is_huge": ("Bad = list", "bytearray(70 << 20)"),
    "is_huge_by_its_reduce": ("class Bad:\n    def __reduce__(self): return bytes, (bytes(200 << 20),)", "Bad()"),
    "is_a_lock": ("import threading\nBad = threading.Lock", "Bad()"),
    "is_a_held_lock_in_a_list": ("import threading\nBad = threading.Lock()", "[Bad, Bad.acquire()]"),
    "is_a_thread": ("import threading\nBad = threading.Thread", "Bad()"),
    "is_a_generator": ("Bad = list", "(n for n in range(3))"),
    "is_an_open_file": ("Bad = list", "__import__('io').open(os.devnull)"),
    "cannot_be_made_again": (
        "class Bad:\n    def __setstate__(self, state): raise ValueError('no')\n    n = 1",
        "Bad()",
    ),
    "hangs_when_it_is_made_again": (
        "class Bad:\n    def __getstate__(self): return {'a': 1}\n"
        "    def __setstate__(self, state):\n        while True: pass",
        "Bad()",
    ),
    "acts_when_it_is_made_again": (
        "class Bad:\n    def __getstate__(self): return {'a': 1}\n    def __setstate__(self, state): os.mkdir('acted')",
        "Bad()",
    ),
}
"""What defines them, and the value."""
BACK_OR_NAMED = {"cannot_be_made_again"}


@pytest.mark.parametrize("name", VALUES)
def test_unsaveable_value_is_named_and_others_are_restored(tmp_path: Path, name: str) -> None:
    defining, value = VALUES[name]
    with Life(tmp_path) as life:
        life.ok("import os", defining, f"{ACT}; other = [1]; bad = {value}; last = [other]", "after = [last]")
        assert life.value("other.append(2); after") == "[[[1, 2]]]"
        for how in ("worker", "load"):
            life.lose(how)
            assert life.value("other, last[0] is other, after[0] is last") == "([1, 2], True, True)"
            there = life.value("'bad' in globals()")
            if there == "False":
                assert "bad" in names_in(said_of(life.reports()[-1], 3)), life.reports()[-1]
            else:
                assert name in BACK_OR_NAMED
        assert not (life.project / "acted").exists()
        assert life.value("6 * 7") == "42"
        assert b"Traceback" not in life.agent.stderr


def test_value_that_changes_the_namespace_harms_no_other(tmp_path: Path) -> None:
    with Life(tmp_path) as life:
        changing = "global x; x = [len(x)]; globals().pop('y', 0); z.append(1); return str, ()"
        life.ok("import os; x, y, z = [1, 2, 3], [4], []", f"class Bad:\n    def __reduce__(self):\n        {changing}")
        life.ok(f"{ACT}; bad = Bad(); n = 1", "m = 2")
        before = life.value("x, 'y' in globals(), z, n, m")
        life.lose("load")
        after = life.value("x, 'y' in globals(), z, n, m")
        assert after == before or names_in(life.reports()[-1]) & {"x", "y", "z"}, (before, after, life.reports())


def test_value_that_kills_its_process_costs_only_itself(tmp_path: Path) -> None:
    with Life(tmp_path) as life:
        life.ok(
            "import os; kept = [1]", "class Bad:\n    def __reduce__(self): os._exit(1)", f"{ACT}; bad = Bad(); n = 1"
        )
        assert life.value("kept") == "[1]"
        life.lose("load")
        assert life.value("kept, 'n' in globals()") in ("([1], True)", "([1], False)")
        said = said_of(life.reports()[-1], 3)
        assert "bad" in names_in(said), life.reports()
        assert life.value("'n' in globals()") == "True" or "n" in names_in(said)


# --- contents ---------------------------------------------------------------------------------------------------------


def _missing(connection: sqlite3.Connection, digests: list[str]) -> None:
    connection.executemany("DELETE FROM blobs WHERE digest = ?", [(digest,) for digest in digests])


def _damaged(connection: sqlite3.Connection, digests: list[str]) -> None:
    connection.executemany("UPDATE blobs SET data = x'00112233' WHERE digest = ?", [(digest,) for digest in digests])


@pytest.mark.parametrize("harm", [_missing, _damaged])
@pytest.mark.parametrize("kind", ["values_kept", "revision_adopted", "effect_answered"])
def test_missing_content_is_named_and_independent_names_are_restored(
    tmp_path: Path, kind: str, harm: Callable[[sqlite3.Connection, list[str]], None]
) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        life.ok(
            "import os; kept = [1]", f"{ACT}; n = [5]", "v = view('a.txt')", "text = read('a.txt')", "w = view('a.txt')"
        )
        life.agent.close()
        (life.project / "a.txt").write_text("two\n")
        digests = [digest for event in life.events(kind) for digest in _digests(event)]
        assert digests
        with closing(sqlite3.connect(life.state / "sessions.db")) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            harm(connection, digests)
            connection.commit()
        life.reopen()
        assert life.value("kept, v.obj_id[:4], w.obj_id[:4]") == "([1], 'view', 'view')"
        report = life.reports()[-1]
        lost = {"values_kept": (2, "n"), "revision_adopted": (3, "a.txt"), "effect_answered": (4, "read")}[kind]
        assert lost[1] in " ".join(said_of(report, lost[0])), report
        if kind == "revision_adopted":
            assert "two" not in (life.value("str(v.Render())") or "")
        else:
            assert life.value("str(v.Render()), str(w.Render())") == "('1\\tone\\n', '1\\tone\\n')"
        if kind == "effect_answered":
            assert life.value("text") == "'one\\n'"
        assert life.value("v.Refresh(); str(v.Render())") == "'1\\ttwo\\n'"
        assert b"Traceback" not in life.agent.stderr


def _digests(event: dict[str, object]) -> list[str]:
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, str) and value.startswith("blake2b-"):
            found.append(value)
        elif isinstance(value, dict):
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(event)
    return found


# --- other folders ----------------------------------------------------------------------------------------------------


def test_session_of_a_moved_project_keeps_names_and_views(tmp_path: Path) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        life.ok(
            "import os; n = 1", f"{ACT}; out = [os.getcwd()]", "v = view('a.txt'); text = read('a.txt')", "m = [out]"
        )
        asked = "n, out, text, str(v.Render()), m[0] is out"
        before = life.value(asked)
        life.agent.close()
        moved = life.project.rename(tmp_path / "moved")
        (moved / "a.txt").write_text("two\n")
        life.agent = life.start()
        life.agent.initialize()
        load(life.agent, life.session, moved)
        assert life.value(asked) == before
        assert life.value("os.getcwd()") == repr(str(moved))
        assert life.value("read('a.txt')") == "'two\\n'"
        assert b"Traceback" not in life.agent.stderr


@pytest.mark.parametrize("change", ["code of Python", "another version of Rewindow"])
def test_copies_that_another_python_or_another_version_wrote_are_named(tmp_path: Path, change: str) -> None:
    with Life(tmp_path) as life:
        life.ok("import os; kept = [1] * 9_000", f"{ACT}; f = lambda: 5; f.__doc__ = 'x' * 9_000; n = [5] * 9_000")
        life.agent.close()
        for event in life.events("values_kept"):
            for group in (each for each in event["groups"] if each["content"]):  # small ones are in the event itself
                data = bytearray(blob(life.state, group["content"]))
                at = data.index(bytes(sys.version_info[:2]))
                if change == "code of Python":
                    data[at + 1] -= 2
                else:
                    data[at - 1] ^= 1
                exchange(life.state, life.session, "values_kept", group["content"], bytes(data))
        life.reopen()
        assert life.value("kept == [1] * 9_000, 'f' in globals()") == "(True, False)"
        said = " ".join(said_of(life.reports()[-1], 2))
        assert change in said
        assert "f" in names_in([said])
        # A list is the same in every Python; what another version of ours wrote is read by nobody.
        assert (life.value("'n' in globals()") == "True") == (change == "code of Python")
