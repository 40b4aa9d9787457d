"""Values that cannot be kept, contents that are gone, projects that moved: each is a sentence, and the rest is back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.past import Life, names_in, said_of

pytestmark = pytest.mark.slow

ACT = "_ = os.system('true')"
"""What has a statement stopped when it runs again, so that its names come from their copies."""

VALUES = {
    "hangs": ("class Bad:\n    def __reduce__(self):\n        while True: pass", "Bad()"),
    "catches_all": (
        "class Bad:\n    def __reduce__(self):\n        while True:\n"
        "            try:\n                while True: pass\n            except BaseException: pass",
        "Bad()",
    ),
    "acts": ("class Bad:\n    def __reduce__(self): os.mkdir('acted'); return str, ()", "Bad()"),
    "raises_what_ends": ("class Bad:\n    def __reduce__(self): raise SystemExit(3)", "Bad()"),
    "is_deep": ("Bad = []\nfor _ in range(100_000): Bad = [Bad]", "Bad"),
    "is_huge": ("Bad = list", "bytearray(70 << 20)"),
    "is_a_generator": ("Bad = list", "(n for n in range(3))"),
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
