"""`bash`: what program it makes of a command, and what it tells of the program's end."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from engine.core.programs import CommandOutcome, CommandOutput, CommandRequest
from engine.session.tools.bash import DENIED, MOST_BYTES, NO_NETWORK, Arguments, answer, denial, perform
from engine.session.tools.workspace import Workspace


def request(folder: Path, command: str, **others: object) -> CommandRequest:
    arguments = msgspec.convert({"command": command, **others}, Arguments)
    return perform(Workspace(str(folder)), arguments).request


def test_command_is_one_argument_of_a_clean_shell(tmp_path: Path) -> None:
    command = "echo 'a'; rm -rf \"$HOME\" # and all of it"
    asked = request(tmp_path, command)
    assert asked.argv == ("/bin/bash", "--noprofile", "--norc", "-c", command)
    assert (asked.cwd, asked.seconds, asked.merged, asked.stdin, asked.stop_at) == (
        os.path.realpath(tmp_path),
        120.0,
        True,
        b"",
        None,
    )


def test_the_user_is_asked_about_the_command_as_it_is(tmp_path: Path) -> None:
    program = perform(Workspace(str(tmp_path)), Arguments("make  all"))
    assert (program.asks, program.command) == (True, "make  all")


def test_command_runs_in_a_resolved_directory_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("in/deep")
    for cwd in ("in/deep", "link", str(tmp_path / "in" / "deep")):
        assert request(tmp_path, "ls", cwd=cwd).cwd == os.path.realpath(tmp_path / "in" / "deep")


@pytest.mark.parametrize(
    ("cwd", "error"),
    [
        ("..", PermissionError),
        ("/", PermissionError),
        ("out", PermissionError),
        ("none", FileNotFoundError),
        ("file", NotADirectoryError),
        ("/proc/self", PermissionError),
        ("a\0b", ValueError),
    ],
)
def test_no_other_directory_is_taken(tmp_path: Path, cwd: str, error: type[Exception]) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "file").touch()
    with pytest.raises(error):
        request(folder, "ls", cwd=cwd)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "the command is empty"),
        (" \n\t", "the command is empty"),
        ("echo a\0b", "NUL"),
        ("x" * (MOST_BYTES + 1), r"the command has 131,072 bytes; Linux allows 131,071. write the command to a file"),
        ("ä" * MOST_BYTES, "262,142 bytes"),
    ],
)
def test_what_is_no_command_is_refused(tmp_path: Path, command: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        request(tmp_path, command)


@pytest.mark.parametrize("seconds", [0, -1, 3600.5, math.inf, math.nan])
def test_the_time_has_bounds(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(ValueError, match="more than 0 and at most 3600 s"):
        request(tmp_path, "ls", timeout=seconds)


def test_the_answer_is_plain_data_that_json_keeps() -> None:
    outcome = CommandOutcome(
        code=3, stdout=CommandOutput(head=b"a\xffb", tail=b"\xe2\x82\xac", total=6), seconds=1.23456
    )
    told = answer(outcome)
    assert told == {
        "code": 3,
        "output": "a\ufffdb€",
        "truncated": False,
        "timed_out": False,
        "signal": None,
        "reason": "",
        "seconds": 1.235,
    }
    assert msgspec.json.decode(msgspec.json.encode(told)) == told


def test_a_signal_has_its_name() -> None:
    assert [answer(CommandOutcome(signal=number))["signal"] for number in (11, 9, 44)] == [
        "SIGSEGV",
        "SIGKILL",
        "signal 44",
    ]


@pytest.mark.parametrize(
    ("head", "tail", "text"),
    [
        (b"ab", b"yz", "ab\n... 6 bytes left out ...\nyz"),
        ("a€".encode()[:3], "€z".encode()[1:], "a\n... 10 bytes left out ...\nz"),
        (b"", b"z", "\n... 9 bytes left out ...\nz"),
        (b"a\xff", b"\xff\xffz", "a\ufffd\n... 5 bytes left out ...\n\ufffd\ufffdz"),
    ],
)
def test_omitted_output_is_counted_without_cutting_characters(head: bytes, tail: bytes, text: str) -> None:
    output = CommandOutput(head=head, tail=tail, total=10)
    if (head, tail) == ("a€".encode()[:3], "€z".encode()[1:]):
        output = CommandOutput(head=head, tail=tail, total=12)
    assert output.text == text
    assert answer(CommandOutcome(stdout=output))["truncated"] is True


def test_the_command_is_for_the_directory_that_was_looked_at(tmp_path: Path) -> None:
    state = tmp_path.stat()
    assert request(tmp_path, "true").directory == (state.st_dev, state.st_ino)


DENIALS = {
    "touch: cannot touch '/etc/x': Read-only file system": "/etc/x",
    "bash: line 1: /etc/x: Permission denied": "/etc/x",
    "fatal: Unable to create '/r/.git/worktrees/w/index.lock': Read-only file system": "/r/.git/worktrees/w/index.lock",
    "OSError: [Errno 30] Read-only file system: '/usr/x y'": "/usr/x y",
    "mkdir: cannot create directory \u2018made\u2019: Read-only file system": "made",
    "error: could not lock config file .git/config: Operation not permitted": ".git/config",
}


def said_by(text: str) -> CommandOutput:
    return CommandOutput(head=text.encode(), total=len(text.encode()))


@pytest.mark.parametrize("said", DENIALS)
def test_what_the_sandbox_denied_is_named(said: str) -> None:
    failed = CommandOutcome(code=1, stderr=said_by(f"begun\n{said}\n"))
    assert denial(failed, has_network=True) == DENIED.format(DENIALS[said])
    assert denial(replace(failed, code=0), has_network=True) == ""


@pytest.mark.parametrize(
    "text", ["x" * 4_000, "/" * 4_000, "x: Permission denied" * 200, "'" * 4_000 + "Permission denied"]
)
def test_the_words_of_a_failed_command_are_searched_in_no_time(text: str) -> None:
    failed = CommandOutcome(code=1, stdout=said_by(text), stderr=said_by(text))
    begun = time.thread_time()
    denial(failed, has_network=False)
    assert time.thread_time() - begun < 0.5  # some ms; minutes, if each character is a beginning


def test_a_network_that_the_sandbox_has_not_is_named() -> None:
    failed = CommandOutcome(code=6, stderr=said_by("curl: (6) Could not resolve host: example.org"))
    assert denial(failed, has_network=False) == NO_NETWORK
    assert denial(failed, has_network=True) == ""
    assert denial(CommandOutcome(code=1, stderr=said_by("no such file")), has_network=False) == ""
