"""What tools are given by mistake or by malice: each is a clear error in its statement, and the session goes on."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent

LARGE = 65 << 20
BAD: list[tuple[str, str]] = [
    # where it is
    ('write("/etc/rewindow", "x")', "PermissionError: outside the workspace"),
    ('write("../beside.txt", "x")', "PermissionError: outside the workspace"),
    ('edit("sub/../../beside.txt", "mine", "x")', "PermissionError: outside the workspace"),
    ('write("~/beside.txt", "x")', "PermissionError: outside the workspace"),
    ('edit("leads_out.txt", "mine", "x")', "PermissionError: outside the workspace"),
    ('write("folder_out/new.txt", "x")', "PermissionError: outside the workspace"),
    ('write("/proc/self/mem", "x")', "PermissionError: outside the workspace"),
    ('read("leads_out.txt")', "PermissionError: outside the workspace"),
    # what it is
    ('write("pipe", "x")', "OSError: a named pipe, not a regular file"),
    ('edit("pipe", "a", "b")', "OSError: a named pipe, not a regular file"),
    ('read("pipe")', "OSError: a named pipe, not a regular file"),
    ('write("sub", "x")', "IsADirectoryError: Is a directory"),
    ('edit("sub", "a", "b")', "IsADirectoryError: Is a directory"),
    ('write("a.txt/b.txt", "x")', "NotADirectoryError: "),
    ('edit("no.txt", "a", "b")', "FileNotFoundError: there is no such file; write() creates it"),
    ('edit("binary", "a", "b")', "ValueError: binary is binary, 256 bytes"),
    ('edit("large", "a", "b")', "OSError: tools do not change files of more than 64 MiB"),
    ('write("large", "x")', "OSError: tools do not change files of more than 64 MiB"),
    ('read("large")', "ValueError: large has more than 8 MiB"),
    # how it is named
    ('write("a\\0b", "x")', "ValueError: a path cannot hold a NUL character"),
    ('write("x" * 300, "x")', "OSError: File name too long"),
    ('write("s/" * 3000 + "a", "x")', "OSError: File name too long"),
    ('write("", "x")', "IsADirectoryError: "),
    # what it is given
    ('write(3, "x")', "TypeError: write(): path must be str, not int"),
    ('write("a.txt", 3)', "TypeError: write(): text is a string or bytes, not int"),
    ('write("a.txt")', "TypeError: write(): missing a required argument: 'text'"),
    ('edit("a.txt", "one", "ONE", count=0)', "ValueError: edit(): count=0; it must be 1 or more"),
    ('edit("a.txt", "", "x")', "ValueError: edit(): old is empty"),
    ('edit("a.txt", "one", "one")', "ValueError: edit(): old and new are the same text"),
    ('edit("a.txt", "oen", "x")', "ValueError: a.txt does not contain that text"),
    ('edit("twice.txt", "one", "x")', "ValueError: twice.txt contains that text 2 times, at lines 1, 3"),
    ('grep("")', "ValueError: an empty pattern matches every line"),
    ('grep("[")', "ValueError: "),
    ('grep("(?=x)")', "ValueError: "),
    ('grep("a\\0b")', "ValueError: a pattern cannot hold a NUL character or a newline"),
    ('grep("x" * 20_000)', "ValueError: a pattern has 10000 characters at most"),
    ('grep("x", context=-1)', "ValueError: context=-1 must be between 0 and 50"),
    ('grep("x", glob="[")', "ValueError: the glob has a [ without its ]"),
    ('grep("x", "/etc")', "PermissionError: outside the workspace"),
    ('grep("x", "folder_out")', "PermissionError: outside the workspace"),
    ('grep("x", "nowhere")', "FileNotFoundError: "),
    ('grep("x", "pipe")', "OSError: a named pipe, not a regular file"),
    ('grep("x", "binary")', "ValueError: binary is no text"),
    ('find("")', "ValueError: the glob '' is empty"),
    ('find("../*")', "ValueError: the glob '../*' must stay below `path`"),
    ('find("*", "a.txt")', "NotADirectoryError: a.txt is a file"),
    ('find("*", "..")', "PermissionError: outside the workspace"),
    ('bash("  ")', "ValueError: bash(): the command is empty"),
    ('bash("echo a\\0b")', "ValueError: bash(): a command cannot hold a NUL character"),
    ('bash("x" * 200_000)', "ValueError: bash(): the command has 200,000 bytes; Linux allows 131,071"),
    ('bash(["ls"])', "TypeError: bash(): command must be str, not list"),
    ('bash("ls", timeout=0)', "ValueError: bash(): timeout is 0 s"),
    ('bash("ls", cwd="/etc")', "PermissionError: outside the workspace"),
    ('bash("ls", cwd="folder_out")', "PermissionError: outside the workspace"),
    ('bash("ls", cwd="a.txt")', "NotADirectoryError: "),
    ('bash("ls", cwd="nowhere")', "FileNotFoundError: "),
    ('edit("latin.txt", "caf\\xe9", "\\u65e5")', "ValueError: latin.txt is in "),
]
"""A statement and how its error begins."""


@pytest.mark.slow
def test_failing_tool_says_why_and_changes_nothing(tmp_path: Path) -> None:
    project = tmp_path / "project"
    _fill(project)
    before = _state(tmp_path)
    with Agent(tmp_path.parent / f"{tmp_path.name}-state", env={"HOME": str(tmp_path)}) as agent:
        session = agent.open(project)
        wrong: list[tuple[str, Any]] = []
        for statement, said in BAD:
            assert agent.prompt(session, statement) == "end_turn"
            reason = _error(agent)
            if not reason.startswith(said) or "Traceback" in reason or len(reason) > 8_000:
                wrong.append((statement[:80], reason[:300]))
        assert wrong == []
        assert agent.prompt(session, "6 * 7") == "end_turn"
        assert agent.text().endswith("42")
        assert b"Traceback" not in agent.stderr
    assert _state(tmp_path) == before


def _fill(project: Path) -> None:
    (project / "sub").mkdir(parents=True)
    os.mkfifo(project / "pipe")
    (project / "a.txt").write_text("one\ntwo\n")
    (project / "twice.txt").write_text("one\ntwo\none\n")
    (project / "binary").write_bytes(bytes(range(256)))
    (project / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    with (project / "large").open("wb") as file:
        file.truncate(LARGE)
    (project.parent / "beside.txt").write_text("mine\n")
    (project / "leads_out.txt").symlink_to("../beside.txt")
    (project / "folder_out").symlink_to("..")


def _error(agent: Agent) -> str:
    notes = (update.get("_meta", {}).get("rewindow", {}) for update in reversed(agent.updates()))
    exception = next(note["execution"]["exception"] for note in notes if "execution" in note)
    return "nothing was raised" if exception is None else f"{exception['type']}: {exception['message']}"


def _state(folder: Path) -> dict[str, tuple[int, ...]]:
    """Everything that is there, and of what is no directory whether anything was written to it."""
    found = {str(path.relative_to(folder)): path.lstat() for path in sorted(folder.rglob("*"))}
    return {
        name: (state.st_ino,) if stat.S_ISDIR(state.st_mode) else (state.st_ino, state.st_size, state.st_mtime_ns)
        for name, state in found.items()
    }
