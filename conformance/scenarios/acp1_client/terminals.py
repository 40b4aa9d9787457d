"""Terminals, where the client offers them: output and its limit, exit, kill and release, and what becomes of ids."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from conformance.driver import StoppedError
from conformance.scenarios.acp1_client.agent import InTurn, Turn
from conformance.suite import Scenario
from conformance.values import Object, as_text, at

_PROBE: Final = Path(__file__).parents[2] / "probes" / "terminal_command.py"
CODE: Final = 7
LIMIT: Final = 1001
"""Odd, so that it falls into the middle of a character of two bytes."""
LINES: Final = 2000
ARGUMENTS: Final = ["two words", "", 'it\'s "quoted" $HOME', "\u00e9\u4e2d"]
VARIABLE: Final = "REWINDOW_CONFORMANCE_VALUE"
VALUE: Final = "a value; with $signs"
_HELD: Final = 30
"""Seconds for which a command runs that is to be ended before."""
_BRIEF: Final = 1
"""For which one runs that ends by itself, where the client takes no notice of a cancel."""
_SOON: Final = 3.0


def running(*words: str) -> Object:
    """The command of a terminal that runs the probe."""
    return {"command": sys.executable, "args": ["-I", "-S", str(_PROBE), "--", *words]}


def create(turn: Turn, label: str, *words: str, **more: Any) -> str:
    """A terminal that runs the probe; its id. Raises StoppedError where there is none."""
    created = turn.call("terminal/create", label, **running(*words), **more)
    name = as_text(at(created, "result.terminalId"))
    if not name:
        raise StoppedError("terminal/create was not answered with a terminalId")
    return name


def _on(turn: Turn, method: str, label: str, terminal: str) -> None:
    turn.call(f"terminal/{method}", label, terminalId=terminal)


def _finished(turn: Turn) -> None:
    turn.need("terminal")
    terminal = create(turn, "started", "lines", "3", str(CODE))
    _on(turn, "wait_for_exit", "wait", terminal)
    _on(turn, "output", "output", terminal)
    _on(turn, "release", "release", terminal)
    for method in ("output", "wait_for_exit", "kill"):
        _on(turn, method, "released", terminal)


def _killed(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        terminal = create(turn, "create", "hold", f"{folder}/held", str(_HELD))
        _wait_for(turn, Path(folder, "held"))
        _on(turn, "output", "running", terminal)
        waiting = turn.ask("terminal/wait_for_exit", "waiting", terminalId=terminal)
        _on(turn, "kill", "kill", terminal)
        turn.driver.response(waiting)
        _on(turn, "output", "killed-output", terminal)
        _on(turn, "wait_for_exit", "killed-wait", terminal)
        _on(turn, "release", "release", terminal)


def _limited(turn: Turn) -> None:
    turn.need("terminal")
    for label, words in (("limited", ("lines", str(LINES), "0")), ("wide", ("wide", str(LINES)))):
        terminal = create(turn, "started", *words, outputByteLimit=LIMIT)
        _on(turn, "wait_for_exit", "wait-limited", terminal)
        _on(turn, "output", label, terminal)
        _on(turn, "release", "release", terminal)


def _released(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        held = Path(folder, "held")
        terminal = create(turn, "create", "hold", str(held), str(_HELD))
        _wait_for(turn, held)
        _on(turn, "release", "release-running", terminal)
        for _ in range(round(_SOON / 0.1)):
            if not _is_running(held):
                break
            turn.driver.pause(0.1)
        turn.driver.mark("still-running", _is_running(held))


def _wait_for(turn: Turn, path: Path) -> None:
    for _ in range(round(turn.driver.options.timeout / 0.1)):
        if path.exists() and path.read_text():
            return
        turn.driver.pause(0.1)
    raise StoppedError("the command of the terminal was not started")


def _is_running(held: Path) -> bool:
    """Whether the process that wrote its id there still runs."""
    try:
        os.kill(int(held.read_text()), 0)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False
    return True


def _given(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        cwd = str(Path(folder).resolve())
        turn.driver.mark("cwd", cwd)
        variables = [{"name": VARIABLE, "value": VALUE}]
        terminal = create(turn, "started", "show", VARIABLE, *ARGUMENTS, env=variables, cwd=cwd)
        _on(turn, "wait_for_exit", "wait-given", terminal)
        _on(turn, "output", "given", terminal)
        _on(turn, "release", "release", terminal)


def _two(turn: Turn) -> None:
    turn.need("terminal")
    first = create(turn, "started", "lines", "2", "0")
    second = create(turn, "started", "lines", "9", "0")
    turn.driver.mark("two", [first, second])
    for label, terminal in (("first", first), ("second", second)):
        _on(turn, "wait_for_exit", "wait-two", terminal)
        _on(turn, "output", label, terminal)
    for terminal in (first, second):
        _on(turn, "release", "release", terminal)


def _unknown(turn: Turn) -> None:
    turn.need("terminal")
    for method in ("output", "wait_for_exit", "kill", "release"):
        _on(turn, method, "unknown-terminal", "rewindow-conformance-no-such-terminal")
    created = turn.call("terminal/create", "no-command", command="/rewindow-conformance/no/such/command")
    name = as_text(at(created, "result.terminalId"))
    if name:
        _on(turn, "wait_for_exit", "no-command", name)
        _on(turn, "release", "release", name)


def _cancelled_wait(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        terminal = create(turn, "create", "hold", f"{folder}/held", str(_BRIEF))
        request = turn.ask("terminal/wait_for_exit", "cancelled-wait", terminalId=terminal)
        turn.driver.notify("$/cancel_request", {"requestId": request})
        turn.driver.response(request, _BRIEF + turn.driver.options.timeout)
        _on(turn, "release", "release", terminal)


SCENARIOS: Final = (
    Scenario("terminal", "Runs a command to its end, and uses its terminal after the release.", InTurn(_finished)),
    Scenario("terminal-kill", "Kills a command that runs, and uses its terminal on.", InTurn(_killed)),
    Scenario("terminal-limit", "Runs commands whose output is longer than the limit.", InTurn(_limited)),
    Scenario("terminal-release", "Releases a terminal whose command runs.", InTurn(_released)),
    Scenario("terminal-given", "Gives a command arguments, a variable and a directory.", InTurn(_given)),
    Scenario("terminals-at-once", "Runs two commands at the same time.", InTurn(_two)),
    Scenario("terminal-unknown", "Uses a terminal, and a command, that do not exist.", InTurn(_unknown)),
    Scenario("terminal-cancel", "Cancels a request that waits for a command.", InTurn(_cancelled_wait)),
)
