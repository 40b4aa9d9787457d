"""The commands over damaged stores: each ends in time with a sentence, and the other sessions stay listed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import Home
from tests.support.damage import DAMAGES, OTHERS, VICTIM, Damage, damaged, intact

SAMPLE = {"title undecodable", "used at a text", "event missing", "id like a path", "the text of a table garbled"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with three sessions, to be copied."""
    place = tmp_path_factory.mktemp("whole")
    (place / "work").mkdir()
    intact(place / "state", place / "work")
    return place / "state"


def checked(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command's end, which is either what it was asked for or sentences, one for each line."""
    done = home.run(*arguments)
    assert (done.returncode == 0) or done.stderr
    assert "Traceback" not in done.stderr
    assert all(line.startswith("rewindow: ") and len(line) < 700 for line in done.stderr.splitlines()), done.stderr
    assert not set("\x1b\u202e") & set(done.stdout + done.stderr)
    return done


@pytest.mark.parametrize(
    "damage",
    [pytest.param(each, id=each.name, marks=() if each.name in SAMPLE else pytest.mark.slow) for each in DAMAGES],
)
def test_damaged_store_is_reported_and_hides_no_other_session(damage: Damage, whole: Path, tmp_path: Path) -> None:
    home = Home(tmp_path)
    damaged(damage, whole, home.state)
    if damage.name not in SAMPLE:  # as a process, because only that can be waited for
        done = home.run_as_process("doctor")
        assert "Traceback" not in done.stdout + done.stderr
        assert done.returncode in (0, 1)
    listed = checked(home, "sessions")
    rows = [json.loads(line) for line in checked(home, "sessions", "--jsonl").stdout.splitlines()]
    if damage.harm != "store":
        assert listed.returncode == 0
        assert {row["session_id"] for row in rows} >= set(OTHERS)
        assert len(rows) == 3
        assert len(listed.stdout) < 10_000
        for other in OTHERS:
            assert checked(home, "show", other, "--events").returncode == 0
    for arguments in (
        ("show", VICTIM),
        ("show", VICTIM, "--cycles", "--json"),
        ("export", VICTIM, "-f", "-o", "kept.jsonl"),
        ("gc", "--older-than", "999999d", "--dry-run"),
        ("gc", "--older-than", "999999d"),
        ("delete", VICTIM, "--yes"),
    ):
        checked(home, *arguments)
    if damage.harm in ("nothing", "recording", "loading"):
        left = [json.loads(line) for line in checked(home, "sessions", "--jsonl").stdout.splitlines()]
        assert {row["session_id"] for row in left} - {VICTIM} == set(OTHERS)


def test_unreadable_part_of_a_row_is_named_with_advice(whole: Path, tmp_path: Path) -> None:
    home = Home(tmp_path)
    (broken,) = (each for each in DAMAGES if each.name == "title undecodable")
    damaged(broken, whole, home.state)
    assert checked(home, "sessions").stderr == (
        "rewindow: session ses_victim is damaged: its title cannot be read. Restore the store from a copy, or save the"
        " rest with `rewindow export` and delete the session\n"
    )
    assert checked(home, "sessions", "--json").stderr == checked(home, "sessions").stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("event undecodable", "event 5 of session ses_victim cannot be read: "),
        ("event empty", "event 5 of session ses_victim cannot be read: "),
        ("event nested deep", "event 5 of session ses_victim cannot be read: "),
        ("event missing", "event 5 of session ses_victim is missing; restore the store from a backup\n"),
        ("more events than there are", "event 41 of session ses_victim is missing; restore the store from a backup\n"),
    ],
)
def test_an_export_of_a_damaged_log_names_the_event(name: str, said: str, whole: Path, tmp_path: Path) -> None:
    home = Home(tmp_path)
    (broken,) = (each for each in DAMAGES if each.name == name)
    damaged(broken, whole, home.state)
    assert checked(home, "export", VICTIM, "-f", "-o", "kept.jsonl").stderr.startswith(f"rewindow: {said}")
    assert not (home.path / "kept.jsonl").exists()
