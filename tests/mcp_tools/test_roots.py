"""Where a session may work: what the command line says, what a client names, and what nobody gets."""

from __future__ import annotations

import os
import subprocess
import traceback
from pathlib import Path

import pytest

from mcp_tools.roots import Roots, RootsError, chosen, of_command_line
from tests.support.mcp_clients import SCRIPT, process


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a project, which is the working directory."""
    project = tmp_path / "home" / "a project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(project)
    return tmp_path / "home"


def test_without_anything_it_is_the_working_directory(home: Path) -> None:
    assert chosen(None, None) == chosen(None, []) == Roots((str(home / "a project"),))


def test_a_client_names_directories_by_uri(home: Path) -> None:
    (home / "b").mkdir()
    named = [
        (home / "a project").as_uri(),
        f"file://localhost{home}/b",
        "http://x/y",
        "file://other/b",
        "nonsense",
        "file:///a%00b",
        "file://[",
        "file:///" + "a" * 5000,
    ]
    assert chosen(None, named).directories == (str(home / "a project"), str(home / "b"))


def test_the_command_line_is_the_limit(home: Path) -> None:
    (home / "b").mkdir()
    (home / "link").symlink_to(home / "b")
    limit = of_command_line([str(home / "a project"), "~/a project"])
    assert limit == Roots((str(home / "a project"),))
    inner = home / "a project" / "inner"
    inner.mkdir()
    assert chosen(limit, [inner.as_uri()]).directories == (str(inner),)
    assert chosen(limit, [(home / "b").as_uri(), (home / "link").as_uri(), "file:///"]) == limit
    assert of_command_line([]) is None


def test_what_is_too_wide_is_the_command_lines_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "to home").symlink_to(home)
    for wide in ("/", str(home), str(home.parent), str(home / "to home")):
        with pytest.raises(RootsError, match="too wide to work in; name a project with --root DIR"):
            chosen(None, [Path(wide).as_uri()])
    assert of_command_line(["/"]) == Roots(("/",))
    monkeypatch.chdir(home)
    with pytest.raises(RootsError, match="too wide"):
        chosen(None, None)
    with pytest.raises(RootsError, match="no directory"):
        of_command_line([str(home / "nothing")])


def test_a_directory_whose_name_is_no_text_is_one(home: Path) -> None:
    named = os.fsencode(home) + b"/caf\xe9"
    os.mkdir(named)
    assert chosen(None, [f"file://{home}/caf%E9"]).directories == (os.fsdecode(named),)


def test_a_working_directory_that_is_gone_is_told_of(home: Path) -> None:
    (home / "a project").rmdir()
    with pytest.raises(RootsError, match="the working directory is gone; name a project with --root DIR"):
        chosen(None, None)


@pytest.mark.anyio
@pytest.mark.parametrize("options", [("--root", "/nonexist"), ("--session", "../x"), ("--nope",)])
async def test_a_client_is_told_why_nothing_is_served(tmp_path: Path, options: tuple[str, ...]) -> None:
    """It would show that the connection was closed."""
    with pytest.raises(Exception) as refused:  # noqa: PT011 -- a group of the client's own tasks
        async with process(tmp_path, *options):
            pass
    said = "".join(traceback.format_exception(refused.value))
    assert "rewindow-mcp: " in said
    assert ("/nonexist is no directory" in said) == (options[0] == "--root")
    assert ("unrecognized arguments: --nope" in said) == (options[0] == "--nope")


@pytest.mark.parametrize("options", [("--nope", "--http", "0"), ("--nope", "--print-config=codex")])
def test_a_usage_error_of_what_is_no_server_on_stdio_answers_nobody(tmp_path: Path, options: tuple[str, ...]) -> None:
    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}\n'
    done = subprocess.run([SCRIPT, *options], input=asked, capture_output=True, check=False, timeout=30, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"rewindow-mcp: unrecognized arguments: --nope" in done.stderr


@pytest.mark.parametrize("first", [b"", b"[]\n"])
def test_what_asks_nothing_is_answered_nothing(tmp_path: Path, first: bytes) -> None:
    done = subprocess.run(
        [SCRIPT, "--root", "/nonexist"], input=first, capture_output=True, check=False, timeout=30, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"/nonexist is no directory" in done.stderr
