"""acpx, an ACP client that is not ours, with sessions that outlive its processes, cancels from outside, permissions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.acpx import SECONDS, Acpx, opened
from tests.support.agents import AGENT
from tests.support.scripts import assert_gone, scripted

pytestmark = pytest.mark.slow

DENIED = 5
"""acpx's exit code where it refused a permission."""


SLOW = pytest.mark.slow


@pytest.fixture
def acpx(tmp_path: Path) -> Iterator[Acpx]:
    with opened(tmp_path) as client:
        yield client


def test_later_processes_list_read_export_and_close_a_session(acpx: Acpx) -> None:
    session = acpx.run("--format", "quiet", "sessions", "new").strip()
    acpx.run("prompt", "x = 41")
    assert acpx.run("--format", "quiet", "prompt", "x + 1").strip() == "42"
    (listed,) = acpx.run("sessions", "list").splitlines()
    assert listed.split("\t")[:3] == [session, "x = 41", str(acpx.work)]
    history = acpx.run("sessions", "history")
    assert "user\tx = 41" in history
    assert "42" in history.splitlines()[-1]
    assert acpx.run("sessions", "close").strip() == session
    assert acpx.run("sessions", "new", "--resume-session", session).splitlines()[-1] == session
    assert acpx.run("--format", "quiet", "prompt", "x + 2").strip() == "43"
    acpx.run("sessions", "close")
    archive = acpx.work / "archive.json"
    acpx.run("sessions", "export", "--output", str(archive))
    assert "x + 2" in archive.read_text()
    assert session in archive.read_text()


def test_session_continues_after_a_cancel_from_another_process(acpx: Acpx) -> None:
    acpx.run("sessions", "new")
    acpx.run("prompt", "kept = 42")
    running = acpx.start("prompt", "while True: pass")
    assert running.stdout
    for line in running.stdout:
        if line.startswith("[tool] while True"):
            break
    acpx.run("cancel")
    rest, _ = running.communicate(timeout=SECONDS)
    assert rest.rstrip().endswith("[done] cancelled")
    assert acpx.run("--format", "quiet", "prompt", "kept").strip() == "42"


@pytest.mark.parametrize(
    ("options", "runs_it"),
    [
        (["--approve-all"], True),
        (["--deny-all"], False),
        pytest.param(["--policy", json.dumps({"autoApprove": ["execute"], "defaultAction": "deny"})], True, marks=SLOW),
        pytest.param(
            ["--policy", json.dumps({"autoDeny": ["execute"], "defaultAction": "approve"})], False, marks=SLOW
        ),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_a_model_wants_to_run_is_decided_by_acpx(tmp_path: Path, options: list[str], runs_it: bool) -> None:
    touched = tmp_path / "touched"
    model = scripted(
        tmp_path, {"statement": f"import os; os.close(os.open({str(touched)!r}, os.O_CREAT))"}, {"text": "Done."}
    )
    client = Acpx(tmp_path, f"{AGENT} --model {model}", {"REWINDOW_SANDBOX": "off"})  # so the statement itself asks
    said = client.run(*options, "exec", "go", code=0 if runs_it else DENIED)
    assert said.rstrip().endswith("[done] end_turn")
    assert "Done." in said
    assert touched.exists() is runs_it
    assert_gone(client.processes())
