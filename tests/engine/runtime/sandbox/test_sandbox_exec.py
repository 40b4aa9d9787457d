"""Workers and programs that are started through `sandbox-exec`, as on macOS: a stand-in of it records each start.

The whole program runs in portable mode, in a process of its own, because modules ask for the system when they are
loaded. The stand-in confines nothing, so this proves what is asked for, not what macOS enforces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.domain import PARTS
from engine.runtime.sandbox.seatbelt import REFUSED
from tests.support import portable
from tests.support.seatbelt import allows, make_program, read, started

ROOT = Path(__file__).parents[4]
REFUSES = """#!/bin/sh
echo "sandbox-exec: sandbox_apply: Operation not permitted" >&2
exit 71
"""
KEY = "sk-of-the-user"


def ran(folder: Path, program: Path) -> Mapping[str, Any]:
    for name in ("scratch", "work"):
        (folder / name).mkdir()
    (folder / "text").write_text("not a program")
    variables = {**os.environ, portable.SANDBOX_EXEC: str(program), "ANTHROPIC_API_KEY": KEY}
    variables.pop(portable.VARIABLE, None)
    command = [sys.executable, "-m", "tests.support.started_in_domain", str(folder)]
    done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def test_worker_and_programs_are_started_in_their_domain(tmp_path: Path) -> None:
    found = ran(tmp_path, make_program(tmp_path))
    assert found["cannot_hold"] == ""
    assert found["layers"] == ["seatbelt", *PARTS]
    assert found["statements"] == [["ok", "42"], ["ok", str(found["worker"])], ["timeout", None]]
    assert found["programs"] == ["a b\n", "FileNotFoundError", "PermissionError"]
    # A path that the profile does not hold yet takes another worker.
    assert found["held"] == [True, False, True]
    echo, worker = sorted(started(tmp_path), key=lambda each: each.command[0])
    for each in (worker, echo):
        rules = read(each.text, each.parameters)
        assert allows(rules, "file-write-data", path=str(tmp_path / "work" / "a"))
        assert not allows(rules, "file-write-data", path=str(tmp_path / "work" / "held"))
        assert not allows(rules, "file-write-data", path=str(tmp_path / "a"))
        assert KEY not in "".join((*each.command, *each.environment.values()))
    assert worker.command[0] == sys.executable
    assert list(echo.command) == ["/bin/echo", "a b"]


def test_without_a_program_that_works_there_is_no_layer(tmp_path: Path) -> None:
    found = ran(tmp_path, make_program(tmp_path, REFUSES))
    assert found["layers"] == []
    assert found["cannot_hold"] == REFUSED.format(program=tmp_path / "sandbox-exec")
    assert found["statements"][0] == ["ok", "42"]
    assert found["programs"][0] == "PermissionError"
