"""A repository's state is read as git reports it, without git, and damaged or foreign files make it unknown."""

from __future__ import annotations

import os
import struct
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from engine.files.git_state import GitState, git_state


def git(folder: Path, *words: str) -> str:
    given = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *given, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit of three files, one of them a link."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("one\n")
    (root / "src/b.py").write_text("x = 1\n")
    (root / "link").symlink_to("a.txt")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def test_a_committed_tree_has_no_changes(repository: Path) -> None:
    assert git_state(str(repository / "src")) == GitState("main", unstaged=0, is_staged=False)


def test_changes_of_tracked_files_are_counted(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / "src/b.py").unlink()
    (repository / "new.txt").write_text("untracked\n")
    assert git_state(str(repository)) == GitState("main", unstaged=2, is_staged=False)
    git(repository, "add", "a.txt")
    assert git_state(str(repository)) == GitState("main", unstaged=1, is_staged=True)


def test_a_file_with_another_time_and_the_same_content_is_unchanged(repository: Path) -> None:
    os.utime(repository / "a.txt", (1, 1))
    assert git_state(str(repository)) == GitState("main", unstaged=0, is_staged=False)


def test_a_link_with_another_target_is_changed(repository: Path) -> None:
    (repository / "link").unlink()
    (repository / "link").symlink_to("b.txt")
    assert git_state(str(repository)) == GitState("main", unstaged=1, is_staged=False)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_version_of_the_index_is_read(repository: Path, version: str) -> None:
    (repository / "src/c.py").write_text("y = 1\n")
    git(repository, "add", "--intent-to-add", "src/c.py")  # which needs version 3
    git(repository, "update-index", "--index-version", version)
    assert git_state(str(repository)) == GitState("main", unstaged=1, is_staged=False)


def test_commits_are_found_in_packs(repository: Path) -> None:
    git(repository, "gc", "-q")
    assert git_state(str(repository)) == GitState("main", unstaged=0, is_staged=False)


def test_another_work_tree_has_its_own_branch(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert git_state(str(tmp_path / "side")) == GitState("side", unstaged=0, is_staged=False)


def test_a_commit_without_a_branch_is_named_by_its_hash(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    commit = git(repository, "rev-parse", "HEAD")[:7]
    assert git_state(str(repository)) == GitState("", commit, unstaged=0, is_staged=False)


def test_git_is_not_started_so_no_configured_program_runs(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.txt filter=evil\n")
    git(repository, "config", "core.fsmonitor", "touch ran; true")
    git(repository, "config", "filter.evil.clean", "touch ran; cat")
    os.utime(repository / "a.txt", (1, 1))
    assert git_state(str(repository)) == GitState("main", unstaged=0, is_staged=False)
    assert not (repository / "ran").exists()


def test_long_paths_of_an_index_take_no_memory(repository: Path) -> None:
    entry = bytes(60) + struct.pack(">H", 0)
    first, others = entry + b"\0" + b"a" * 1_000_000 + b"\0", (entry + b"\0b\0") * 19_999
    (repository / ".git/index").write_bytes(struct.pack(">4sII", b"DIRC", 4, 20_000) + first + others + bytes(20))
    tracemalloc.start()
    assert git_state(str(repository)) == GitState("main")
    assert tracemalloc.get_traced_memory()[1] < 50 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("keep", [0, 5, 12, 40, 100])
def test_a_damaged_index_makes_the_state_unknown(repository: Path, keep: int) -> None:
    index = repository / ".git/index"
    index.write_bytes(index.read_bytes()[:keep])
    assert git_state(str(repository)) == GitState("main")


def test_a_repository_without_a_commit_has_a_branch(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert git_state(str(tmp_path)) == GitState("main")


def test_a_directory_without_a_repository_has_no_state(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_bytes(b"\xff\x00" * 10_000)
    assert git_state(str(tmp_path)) is None
