"""What the host does for statements, and where it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.session.tools import OPERATIONS, Reading, Workspace, read, search


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "project-evil").mkdir()
    (tmp_path / "project-evil" / "secret").write_text("secret")
    return Workspace(str(tmp_path / "project"))


def run(workspace: Workspace, operation: str, **arguments: object) -> object:
    found = OPERATIONS[operation]
    answer = found.perform(workspace, found.arguments(**arguments))
    return answer.value if isinstance(answer, Reading) else answer


def test_read_gives_the_whole_text_or_lines_of_it(workspace: Workspace) -> None:
    assert run(workspace, "read", path="a.txt") == "one\ntwo\nthree\n"
    assert run(workspace, "read", path="a.txt", start_line=2, end_line=2) == "two\n"
    assert run(workspace, "read", path="a.txt", start_line=9) == ""


@pytest.mark.parametrize(("start", "end"), [(0, None), (3, 2), (-1, 5)])
def test_lines_that_make_no_range_are_refused(workspace: Workspace, start: int, end: int | None) -> None:
    with pytest.raises(ValueError, match=r"is not a line|is before"):
        run(workspace, "read", path="a.txt", start_line=start, end_line=end)


def test_undecodable_bytes_and_names_are_replaced(workspace: Workspace) -> None:
    Path(workspace.cwd, "bytes").write_bytes(b"a\xffb")
    assert run(workspace, "read", path="bytes") == "a\ufffdb"
    os.mkdir(os.fsencode(workspace.cwd) + b"/src/\xff")
    assert run(workspace, "ls", path="src") == ["\ufffd/"]


def test_ls_marks_directories_and_bounds_its_length(workspace: Workspace) -> None:
    assert run(workspace, "ls", path=".") == ["a.txt", "src/"]
    assert search.ls(workspace, search.LsArguments(path="."), limit=2) == ["a.txt", "src/"]
    assert search.ls(workspace, search.LsArguments(path="."), limit=1) == ["a.txt", "... 1 more"]


def test_file_too_large_for_a_string_is_refused_with_advice(workspace: Workspace) -> None:
    Path(workspace.cwd, "large").write_bytes(bytes(read.MAX_BYTES + 1))
    with pytest.raises(ValueError, match=r"large has more than 8 MiB; use view\(\)"):
        run(workspace, "read", path="large")
    os.truncate(Path(workspace.cwd, "large"), read.MAX_BYTES)
    assert run(workspace, "read", path="large", start_line=2) == ""


@pytest.mark.parametrize("path", ["/etc/passwd", "../project-evil/secret", "~/x", "link/secret", "src/up/secret"])
@pytest.mark.parametrize("operation", ["read", "ls"])
def test_nothing_outside_the_workspace_is_reached(workspace: Workspace, operation: str, path: str) -> None:
    evil = Path(workspace.cwd).parent / "project-evil"
    Path(workspace.cwd, "link").symlink_to(evil)
    Path(workspace.cwd, "src", "up").symlink_to("../../project-evil")
    with pytest.raises(PermissionError, match="outside the workspace"):
        run(workspace, operation, path=path)


def test_an_additional_directory_and_a_linked_workspace_are_inside(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(workspace.cwd)
    aliased = Workspace(str(tmp_path / "alias"), (str(tmp_path / "project-evil"),))
    assert run(aliased, "read", path="a.txt", start_line=1, end_line=1) == "one\n"
    assert run(aliased, "read", path=str(tmp_path / "project-evil" / "secret")) == "secret"


def test_missing_file_and_nul_are_system_errors(workspace: Workspace) -> None:
    with pytest.raises(FileNotFoundError):
        run(workspace, "read", path="none")
    with pytest.raises(NotADirectoryError):
        run(workspace, "ls", path="a.txt")
    with pytest.raises(ValueError, match="NUL"):
        run(workspace, "read", path="a\0b")
