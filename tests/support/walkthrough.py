"""Runs the commands that a page of the documentation shows, in a project of its own.

The page says what its project has: a line with a file's name, such as `notes.md` in backticks and a colon, and a block
with the content. Blocks of `console` are run from top to bottom:
- `$ COMMAND` runs in a shell, whose output follows. A last line `^C` means that Ctrl-C ends the command.
- `$ rewindow run` alone opens a session on a terminal, and `1> TEXT` is typed there. Lines that are indented by three
  spaces belong to what is typed. The next command of a shell leaves the session.

`python -m tests.support.walkthrough PAGE...` writes the outputs of today into the pages.
"""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.commands import Home
from tests.support.node import own_command
from tests.support.stores import ROOT
from tests.support.terminal import CTRL_D, ENTER, Terminal

SECONDS: Final = 60
PROGRAMS: Final = ("rewindow", "rewindow-acp", "rewindow-mcp")
OPENS: Final = "rewindow run"
INTERRUPTED: Final = "^C\n"
_LINES, _COLUMNS = 50, 100
_SHOWN_HOME, _SHOWN_PROGRAMS = "/home/me", "/home/me/.local/bin"
_NEW_LINE: Final = "\x1b\r"
_BLOCK: Final = re.compile(r"(?<=^```console\n)(.*?)(?=^```)", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"^`([\w./-]+)`:\n\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND, _TYPED = re.compile(r"^(?=\$ )", re.MULTILINE), re.compile(r"^(?=\d+> )", re.MULTILINE)
_READY: Final = re.compile(r"\n\d+>\s*\n\s*ask \(Shift-Tab\).*\Z")
_ANY_ID: Final = re.compile(r"ses_\w+")
_WHOLE_ID: Final = re.compile(r"ses_[0-9a-f]{24}")
_SHOWN_ID: Final = "ses_01a22248a3c5f1e07b964d2c"
_VARYING: Final = (
    (_ANY_ID, "ses_0"),
    (re.compile(r"<?\b\d+(\.\d+)? (ms|s)\b"), "0 ms"),
    (re.compile(r"\b\d+(\.\d+)? k?B\b"), "0 B"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d +\d+"), "2026-01-01 12:00 0"),
    (re.compile(r"\d+ events"), "0 events"),
    # A statement that was slow on a busy machine has a checkpoint.
    (re.compile(r"\[variables were\s+restored:[^\]]*\]"), "[variables were restored]"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:1"),
    (re.compile(r"token=[\w.-]+"), "token=0"),
    (re.compile(r"\s+"), " "),  # because columns and lines are as long as what varies in them
)


def comparable(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text


def blocks(page: str) -> list[str]:
    """The blocks of commands with their outputs."""
    return _BLOCK.findall(page)


@dataclass(frozen=True)
class Step:
    """A command or a typed text with its marker, and what is shown after it."""

    command: str
    shown: str


def steps(block: str) -> list[Step]:
    """The steps of a block: of a shell, or of a session on a terminal, which the first step may open."""
    in_session = block.startswith(f"$ {OPENS}\n") or not block.startswith("$ ")
    result: list[Step] = []
    for part in filter(None, (_TYPED if in_session else _COMMAND).split(block)):
        typed = re.match(r"\d+> .*\n(?:   .*\n)*", part)
        if in_session and typed is not None:
            command = typed[0]
        else:
            command = next(command for command in beginnings(part) if is_complete(command))
        result.append(Step(command, part.removeprefix(command)))
    return result


def beginnings(text: str) -> list[str]:
    """The first line, the first two lines, and so on."""
    lines = text.splitlines(keepends=True)
    return ["".join(lines[:count]) for count in range(1, len(lines) + 1)]


def is_complete(command: str) -> bool:
    """Whether no quote is open."""
    try:
        return bool(shlex.split(command))
    except ValueError:
        return False


class Walkthrough:
    """The project of a page, and at most one session on a terminal. To be closed."""

    def __init__(self, page: str, place: Path) -> None:
        self._place = place
        self._project = place / "project"
        self._project.mkdir()
        programs = place / "programs"
        programs.mkdir()
        home = Home(place)
        self._variables = {**home.variables, "PATH": f"{programs}:{home.variables['PATH']}", "TERM": "xterm-256color"}
        for name in PROGRAMS:
            function = name.replace("-", "_")
            source = f"from rewindow_startup import {function}; {function}()"
            _write_program(programs / name, [sys.executable, "-c", source])
        _write_program(programs / "jq", own_command("jq.js"))
        for name, text in _FILE.findall(page):
            path = self._project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self._terminal: Terminal | None = None
        self._seen: list[str] = []

    def run(self, block: str) -> str:
        """Run the steps of a block, and return the block with what is shown now."""
        shown = "".join(map(self._perform, steps(block)))
        for path, instead in ((str(self._place), _SHOWN_HOME), (f"{sys.prefix}/bin", _SHOWN_PROGRAMS)):
            shown = shown.replace(path, instead)
        assert "```" not in shown, "a page cannot show this output in a block"
        return _WHOLE_ID.sub(_SHOWN_ID, shown)

    def close(self) -> None:
        """Leave the session, if there is one."""
        if self._terminal is not None:
            self._terminal.type(CTRL_D)
            assert self._terminal.ended() == 0
            self._terminal.hang_up()
            self._terminal = None

    def _perform(self, step: Step) -> str:
        """The command and what is shown after it. On a terminal, the command is as this shows it."""
        command = _ANY_ID.sub("ses_", step.command)
        if not command.startswith("$ "):
            return self._typed(command.partition("> ")[2].rstrip("\n"))
        self.close()
        command = command.removeprefix("$ ").rstrip("\n")
        if command == OPENS:
            return step.command + self._opened()
        if step.shown.endswith(INTERRUPTED):
            return step.command + self._interrupted(command, step.shown.count("\n") - 1) + INTERRUPTED
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._project,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        return step.command + done.stdout

    def _interrupted(self, command: str, lines: int) -> str:
        """The first lines of a command that runs until Ctrl-C."""
        with subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=self._project,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            shown = [process.stdout.readline() for _ in range(lines)]
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)
        return "".join(shown)

    # --- on a terminal ------------------------------------------------------------------------------------------------

    def _opened(self) -> str:
        self._terminal = Terminal(
            ["rewindow", "run"], self._variables, str(self._project), lines=_LINES, columns=_COLUMNS
        )
        self._seen = []
        return self._answered()

    def _typed(self, text: str) -> str:
        assert self._terminal is not None
        lines = [line.removeprefix("   ") for line in text.split("\n")]
        before = self._terminal.text
        self._terminal.type(_NEW_LINE.join(lines))
        self._terminal.until_it(lambda seen: lines[-1] in seen[len(before.rsplit("\n", 1)[0]) - _COLUMNS :], lines[-1])
        self._terminal.type(ENTER)
        return self._answered()

    def _answered(self) -> str:
        """What is shown since the last prompt, which is the first line."""
        assert self._terminal is not None
        text = self._terminal.until_it(lambda seen: _READY.search("\n" + seen) is not None, "a prompt", SECONDS)
        seen = _READY.sub("", "\n" + text)[1:].split("\n")
        new = seen[len(self._seen) :]
        self._seen = seen
        return "".join(f"{line}\n" for line in new)


def _write_program(path: Path, command: list[str]) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


@contextmanager
def _place() -> Iterator[Path]:
    """A directory whose path is as long as the one that pages show, so that lines break where they do there."""
    while True:  # because so short a name may be taken
        place = Path("/tmp") / secrets.token_hex()[: len(_SHOWN_HOME) - len("/tmp/")]
        with suppress(FileExistsError):
            place.mkdir()
            break
    try:
        yield place
    finally:
        shutil.rmtree(place)


def outputs(page: str) -> list[str]:
    """The blocks of a page as they come out now."""
    with _place() as place:
        walkthrough = Walkthrough(page, place)
        try:
            return [walkthrough.run(block) for block in blocks(page)]
        finally:
            walkthrough.close()


def main(names: list[str]) -> None:
    for name in names:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        now = iter(outputs(page))
        path.write_text(_BLOCK.sub(lambda old: _latest(old[0], next(now)), page), encoding="utf-8")  # noqa: B023


def _latest(old: str, new: str) -> str:
    return old if comparable(old) == comparable(new) else new


if __name__ == "__main__":
    main(sys.argv[1:])
