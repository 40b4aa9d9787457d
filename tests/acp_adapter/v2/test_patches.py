"""Patches in Git's format, as Git itself applies them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_adapter.updates.blocks import change_content
from acp_adapter.updates.shapes import Diff
from acp_adapter.v2.patches import git_patch, quoted
from engine.files.revision import show_all
from engine.session.tools.change import SHORT_LINES, changes_of

PIECES = st.lists(st.sampled_from(["a", "b", "", " x", "-", "+y", "@@ -1 +1 @@", "\\ No", "é"]), max_size=12)
ENDS = st.sampled_from(["", "\n"])
TEXTS = st.builds(lambda pieces, end: "\n".join(pieces) + end, PIECES, ENDS)
LONG = "".join(f"line {number}\n" for number in range(SHORT_LINES + 50))


def applied(patch: str) -> None:
    """Apply a patch whose paths are absolute."""
    command = ["git", "apply", "--unsafe-paths", "-p1", "--unidiff-zero", "--whitespace=nowarn", "-"]
    environ = {"GIT_CEILING_DIRECTORIES": "/", "GIT_DIR": "/nonexistent", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, input=patch.encode(), cwd="/", env=environ, capture_output=True, timeout=30)
    assert done.returncode == 0, (patch, done.stderr)


def patch_of(path: Path, old: str | None, new: str, *, removed: bool = False) -> str:
    changes, note = changes_of(None if old is None else old.encode(), new.encode(), show_all)
    content = change_content(str(path), changes, note, removed=removed)
    return git_patch([block for block in content if isinstance(block, Diff)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, "one\ntwo\n"),
        (None, "no newline"),
        ("one\ntwo\n", "one\n2\n"),
        ("one", "one\n"),
        ("one\n", "two"),
        ("", "x\n"),
        ("x\n", ""),
        (LONG, LONG.replace("line 3\n", "line three\nand more\n").replace("line 200\n", "").replace("line 249\n", "")),
    ],
)
def test_git_applies_a_patch(tmp_path: Path, old: str | None, new: str) -> None:
    file = tmp_path / "a file é.txt"
    if old is not None:
        file.write_text(old)
    applied(patch_of(file, old, new))
    assert file.read_text() == new


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(old=TEXTS, new=TEXTS)
def test_git_applies_any_patch(tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    if old == new:
        return
    file = tmp_path_factory.mktemp("patched") / "file"
    file.write_text(old)
    applied(patch_of(file, old, new))
    assert file.read_text() == new


def test_later_hunks_count_lines_of_the_new_file() -> None:
    new = LONG.replace("line 3\n", "line three\nand more\n").replace("line 200\n", "")
    heads = [line for line in patch_of(Path("/w/a"), LONG, new).splitlines() if line.startswith("@@")]
    assert heads == ["@@ -1,7 +1,8 @@", "@@ -198,7 +199,6 @@"]


def test_removed_file_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "gone.txt"
    file.write_text("one\ntwo\n")
    patch = patch_of(file, "one\ntwo\n", "", removed=True)
    assert "deleted file mode" in patch
    assert "+++ /dev/null" in patch
    applied(patch)
    assert not file.exists()


def test_empty_file_has_no_hunk() -> None:
    assert patch_of(Path("/w/empty"), None, "") == "diff --git /w/empty /w/empty\nnew file mode 100644\n"


def test_unusual_paths_are_quoted() -> None:
    assert quoted("/plain/path with space.py") == "/plain/path with space.py"
    assert quoted('/a"b\\c\n\té') == '"/a\\"b\\\\c\\n\\t\\303\\251"'
